"""Reports and headers of what sessions have brought, entered as the recorder does."""

from msgspec import structs

from averaging.log.credit import session_id
from averaging.log.header import Exclusion, Header, Part
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.recorder import credited, ledger_id, with_bound_id
from tests.averaging.log.headers import header, member

NOW = 1_800_000_000.0
ASHA, BELA = "asha.1", "bela.0"


def report(session: str, **fields: object) -> SessionReport:
    plain: dict[str, object] = {
        "session_id": session_id(session),
        "user": session.partition(".")[0],
        "peer_id": session.partition(".")[0],
        "client_mode": False,
        "device": "cpu",
        "started": NOW - 60,
        "last_seen": NOW,
        "step": 1,
        "samples_per_second": 9.0,
        "averaging_rounds": 1,
        "averaging_failures": 0,
        "data_wait_fraction": 0.0,
        "left": False,
    }
    return with_bound_id(SessionReport(**{**plain, **fields}))  # type: ignore[arg-type]


def update(step: int, *sessions: str, without: str = "") -> Header:
    members = tuple(structs.replace(member(one, 20, one.partition(".")[0]), samples=10, loss=6.0) for one in sessions)
    exclusions = (Exclusion(without, (0,)),) if without else ()
    return header(step, members=members, parts=(Part(sessions[0], ("a", "b")),), exclusions=exclusions)


def write(ledger: Ledger, reports: list[SessionReport], *headers: Header, now: float = NOW) -> None:
    """As the recorder does."""
    names = {ledger_id(one.session) for each in headers for one in each.members}
    known = ledger.known_sessions(names.difference(one.session_id for one in reports))
    ledger.record(credited(reports, headers, known, 0.2, now), now)


def samples(ledger: Ledger) -> dict[str, int]:
    return {one.user: one.samples for one in ledger.sessions(NOW)}
