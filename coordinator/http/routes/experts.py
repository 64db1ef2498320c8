"""The route about experts on volunteers' machines: who hosts which, whether each is served, and what they add."""

from collections.abc import Sequence

from fastapi import APIRouter
from fastapi.responses import Response

from coordinator.http.responses import UNAVAILABLE, CachedJson
from coordinator.http.routes.public import MOST_EVALUATIONS
from coordinator.http.schemas import ExpertAnswer, ExpertHealth, ExpertsAnswer, HostAnswer
from coordinator.ledger.answers import EvaluationRecord
from coordinator.run_context import ServiceContext
from experts.directory.assignment import servers
from experts.directory.records import Listed
from experts.grid import Grid, all_uids
from experts.versions import steps_taken
from swarm.access.passes import is_verified


def expert_routes(context: ServiceContext) -> APIRouter:
    """GET only; hosts are looked up at most once in `CACHE_SECONDS`."""
    router = APIRouter(tags=["experts"], responses=UNAVAILABLE)
    answer = CachedJson(lambda: _answer(context))

    @router.get("/api/experts", response_model=ExpertsAnswer)
    def experts() -> Response:
        """Experts and their hosts now; none in a run without experts."""
        return answer()

    return router


def _answer(context: ServiceContext) -> ExpertsAnswer:
    section = context.run.experts
    if section is None:
        return ExpertsAnswer(grid=[], experts_of_a_row=0, hosts=[], experts=[], losses=None)
    grid, listed = tuple(section.grid), context.hosts()
    return ExpertsAnswer(
        grid=section.grid,
        experts_of_a_row=section.experts_of_a_row,
        hosts=[_host(one) for one in listed],
        experts=describe_experts(grid, listed),
        losses=_newest_with_experts(context.ledger.history.evaluations(MOST_EVALUATIONS)),
    )


def describe_experts(grid: Grid, hosts: Sequence[Listed]) -> list[ExpertAnswer]:
    """Each expert of the grid, by what the hosts say of themselves."""
    users = {host.holdings.peer: host.user for host in hosts}
    staying = [host.holdings for host in hosts if not host.holdings.leaves]
    serving = servers(staying)
    versions = {one.peer: one.serves for one in staying}
    copies = {uid: [one for one in staying if uid in one.copies] for uid in all_uids(grid)}
    found = []
    for uid in all_uids(grid):
        peer = serving.get(uid)
        newest = versions[peer][uid] if peer else max((one.copies[uid] for one in copies[uid]), default=0)
        found.append(
            ExpertAnswer(
                uid=list(uid),
                health=ExpertHealth.SERVING if peer else ExpertHealth.STANDBY if copies[uid] else ExpertHealth.NONE,
                served_by=users[peer] if peer else None,
                copied_by=sorted({users[one.peer] for one in copies[uid]}),
                steps=steps_taken(newest),
            )
        )
    return found


def _host(one: Listed) -> HostAnswer:
    holdings = one.holdings
    return HostAnswer(
        user=one.user,
        verified=is_verified(one.user),
        serves=len(holdings.serves),
        copies=len(holdings.copies),
        load=one.load,
        leaves=holdings.leaves,
    )


def _newest_with_experts(evaluations: Sequence[EvaluationRecord]) -> EvaluationRecord | None:
    return next((one for one in reversed(evaluations) if one.loss_with_experts is not None), None)
