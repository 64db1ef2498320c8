"""The route about machines: what the run is computed on, and nobody's name."""

from collections.abc import Callable

from fastapi import APIRouter
from fastapi.responses import Response

from coordinator.context import RunContext
from coordinator.http.desk import Remembered
from coordinator.http.response_cache import KEPT, UNAVAILABLE, kept
from coordinator.http.schemas.people import MachinesAnswer

MOST_DEVICES = 100  # kinds of them


def machine_routes(context: RunContext) -> APIRouter:
    """GET alone. What costs the ledger something is found at most once in `KEPT` seconds."""
    router = APIRouter(tags=["machines"], responses=UNAVAILABLE)
    machines = Remembered(lambda: _machines(context), KEPT)

    @router.get("/api/machines", response_model=MachinesAnswer)
    def all_machines() -> Response:
        """Devices and how fast they are, who can be reached, and countries of those who said theirs."""
        return machines()()

    return router


def _machines(context: RunContext) -> Callable[[], Response]:
    people = context.ledger.people
    modes = people.modes()
    answer = MachinesAnswer(
        devices=people.devices(MOST_DEVICES),
        client_mode=modes[True],
        reachable=modes[False],
        countries=people.countries(),
    )
    return kept(answer, KEPT)
