"""Reports and headers of what sessions have brought, entered as the recorder does."""

from dataclasses import replace

from msgspec import structs

from averaging.log.credit import session_id
from averaging.log.header import Exclusion, Header, Part, peer_of
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.recorder import bound_id, credited, ledger_id
from tests.averaging.log.headers import header, member

NOW = 1_800_000_000.0
ASHA, BELA = "asha.1", "bela.0"


def report(session: str, **fields: object) -> SessionReport:
    peer = str(fields.get("peer_id", peer_of(session)))
    plain = SessionReport(bound_id(session_id(session), peer), peer, peer, False, NOW - 60, NOW, 1)
    return replace(plain, **fields)  # type: ignore[arg-type]


def update(step: int, *sessions: str, without: str = "") -> Header:
    members = tuple(structs.replace(member(one, 20, peer_of(one)), samples=10, loss=6.0) for one in sessions)
    exclusions = (Exclusion(without, (0,)),) if without else ()
    return header(step, members=members, parts=(Part(sessions[0], ("a", "b")),), exclusions=exclusions)


def write(ledger: Ledger, reports: list[SessionReport], *headers: Header, now: float = NOW) -> None:
    """As the recorder does."""
    names = {ledger_id(one.session) for each in headers for one in each.members}
    known = ledger.known_sessions(names.difference(one.session_id for one in reports))
    ledger.record(credited(reports, headers, known, 0.2, now), now)


def samples(ledger: Ledger) -> dict[str, int]:
    return {one.user: one.samples for one in ledger.sessions(NOW)}
