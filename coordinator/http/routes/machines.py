"""The route about machines: what the run is computed on, and nobody's name."""

from collections.abc import Callable
from dataclasses import asdict

from fastapi import APIRouter
from fastapi.responses import Response

from coordinator.context import RunContext
from coordinator.http.desk import Remembered
from coordinator.http.response_cache import KEPT, UNAVAILABLE, kept
from coordinator.http.schemas.people import CountryAnswer, DeviceAnswer, MachinesAnswer, ModeAnswer

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
    census = context.ledger.census
    modes = {
        one.client_mode: ModeAnswer(sessions=one.sessions, present=one.present, samples=one.samples)
        for one in census.modes()
    }
    nobody = ModeAnswer(sessions=0, present=0, samples=0)
    answer = MachinesAnswer(
        devices=[DeviceAnswer(**asdict(one)) for one in census.devices(MOST_DEVICES)],
        client_mode=modes.get(True, nobody),
        reachable=modes.get(False, nobody),
        countries=[CountryAnswer(**asdict(one)) for one in census.countries()],
    )
    return kept(answer, KEPT)
