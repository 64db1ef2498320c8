"""The route about machines: what the run is computed on, without names."""

from fastapi import APIRouter
from fastapi.responses import Response

from coordinator.context import RunContext
from coordinator.http.responses import UNAVAILABLE, CachedJson
from coordinator.http.schemas import MachinesAnswer

MOST_DEVICES = 100  # kinds of them


def machine_routes(context: RunContext) -> APIRouter:
    """GET only; the ledger is read at most once in `CACHE_SECONDS`."""
    router = APIRouter(tags=["machines"], responses=UNAVAILABLE)
    machines = CachedJson(lambda: _machines(context))

    @router.get("/api/machines", response_model=MachinesAnswer)
    def all_machines() -> Response:
        """Devices and how fast they are, who can be reached, and countries of users who gave theirs."""
        return machines()

    return router


def _machines(context: RunContext) -> MachinesAnswer:
    people = context.ledger.people
    modes = people.modes()
    return MachinesAnswer(
        devices=people.devices(MOST_DEVICES),
        client_mode=modes[True],
        reachable=modes[False],
        countries=people.countries(),
    )
