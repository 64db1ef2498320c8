"""Headers, heads and ballots for tests, short to write."""

from averaging.log.header import Ballot, Certificate, Entry, Head, Header, HeaderKind, Member, Reset

FIRST = Ballot(0, "coordinator.0")


def header(step: int = 1, previous: str = "", **fields: object) -> Header:
    """An update with nothing in it but what is given."""
    plain = {"run": "run", "kind": HeaderKind.UPDATE, "ballot": FIRST}
    return Header(step=step, previous=previous, **{**plain, **fields})  # type: ignore[arg-type]


def member(session: str, weight: int = 10, user: str = "", reachable: bool = True) -> Member:
    """What a session of a user of the same name brought: each token of its own sample."""
    return Member(session, user or session, (0,), weight, reachable, samples=weight)


def chain_of(length: int, **fields: object) -> list[Entry]:
    """Entries that follow each other, from step 0."""
    entries: list[Entry] = []
    for step in range(length):
        previous = entries[-1].header.digest if entries else ""
        entries.append(Entry(header(step, previous, **fields), Certificate(FIRST)))
    return entries


def head(step: int, *resets: tuple[int, int], digest: str = "") -> Head:
    """Where a peer stands whose chain was reset at these steps, in ballots with these numbers."""
    return Head(step, digest or f"{step}{resets}", tuple(Reset(at, Ballot(number, "c")) for at, number in resets))
