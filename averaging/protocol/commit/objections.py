"""What a peer has against a header that is proposed to it.

The rule that keeps this from blocking a run: a peer objects only to what contradicts the chain, the header itself, or
something that it knows for certain and that never changes: whose session it is, what this peer has offered, what state
it had. So whatever one honest peer accepts, all others accept, and a header that had to be proposed again can be.
Sessions to which a header gives power, voters and a new tie-breaker, must be real: the signed contact of each travels
with the proposal, for those that the DHT has not told of it.

What it does not see: gradients that are made up, and members that a convener has left out.
"""

from collections.abc import Collection, Mapping, Sequence

from averaging.log.header import Header, HeaderKind, Member, SnapshotName, exclusions_of, plausible
from averaging.protocol.buffers import Buffer
from averaging.protocol.commit import quorum
from averaging.protocol.contacts import Contacts
from averaging.protocol.credentials import Credentials, is_ordered
from averaging.protocol.settings import Settings

LARGEST_LOSS = 1e6  # nats for a masked token, above any honest one


def objection(
    header: Header,
    recent: Sequence[Header],
    settings: Settings,
    contacts: Contacts,
    own: Mapping[int, Buffer],
    snapshots: Collection[SnapshotName],
    credentials: Credentials,
) -> str:
    """The first one; empty if there is none.

    Args:
        recent: the newest headers of the chain, `quorum.WINDOW` of them if they are held.
        own: closed buffers of this peer, by number.
        snapshots: states that this peer had, and others that are near to them.
    """
    return (
        _follows(header, recent[-1])
        or _order(header, credentials)
        or _voters(header, recent)
        or members_objection(header.members, settings, contacts, own)
        or _coordinator(header, recent[-1], contacts)
        or (_update(header, settings.chunks) if header.kind is HeaderKind.UPDATE else "")
        or _snapshot(header, recent[-1], snapshots, settings.snapshot_every)
    )


def _follows(header: Header, previous: Header) -> str:
    expected = (previous.run, previous.step + 1, previous.digest, previous.resets)
    if (header.run, header.step, header.previous, header.resets) != expected:
        return f"step {header.step} does not follow step {previous.step}"
    if header.kind not in (HeaderKind.UPDATE, HeaderKind.ROLLBACK):
        return f"a header of kind {header.kind.value} is not voted for"
    return ""


def _order(header: Header, credentials: Credentials) -> str:
    is_signed = header.kind is not HeaderKind.ROLLBACK or is_ordered(header, credentials)
    return "" if is_signed else "the run's authority has not signed it"


def _voters(header: Header, recent: Sequence[Header]) -> str:
    if len(recent) < quorum.WINDOW and recent[0].previous:
        return ""  # this peer does not hold all headers that count
    expected = quorum.choose_voters(header.members, recent, by_past_credit=header.kind is not HeaderKind.UPDATE)
    return "" if header.voters == expected else f"its voters are {header.voters}, and not {expected}"


def listing_objection(members: Sequence[Member]) -> str:
    """Why a list of members is malformed; empty if it is not."""
    sessions = [member.session for member in members]
    if sessions != sorted(set(sessions)):
        return "its members are not in their order, each once"
    for member in members:
        if not member.buffers and (member.weight or member.samples):
            return f"{member.session} has a weight of {member.weight} without gradients"
        if member.buffers and not member.weight:
            return f"{member.session} has gradients without a weight"
        if member.loss is not None and member.loss > LARGEST_LOSS:
            return f"{member.session} has a loss of {member.loss}"
    return ""


def members_objection(
    members: Sequence[Member], settings: Settings, contacts: Contacts, own: Mapping[int, Buffer]
) -> str:
    """What this peer has against the members of a plan or a header; empty if nothing."""
    if wrong := listing_objection(members):
        return wrong
    for member in members:
        if not settings.may_bring(member.samples, member.weight):
            return f"{member.session} cannot have {member.samples} samples with {member.weight} masked tokens"
        known = contacts.get(member.session)
        if known is not None and known.user != member.user:
            return f"{member.session} belongs to {known.user}, and not to {member.user}"
        if member.session == contacts.me.session:
            found = [own[number] for number in member.buffers if number in own]
            offered = sum(one.samples for one in found), sum(one.weight for one in found)
            if len(found) < len(member.buffers) or offered != (member.samples, member.weight):
                return "it names other gradients of this peer than it has offered"
    return ""


def _coordinator(header: Header, previous: Header, contacts: Contacts) -> str:
    """Nobody else breaks ties or rolls the run back."""
    claimed = {header.tie_breaker} - {previous.tie_breaker}
    if header.kind is HeaderKind.ROLLBACK:
        claimed.add(header.ballot.convener)
    for session in claimed:
        known = contacts.get(session)
        if known is not None and not known.is_coordinator:
            return f"{session} is not the coordinator"
    unknown = [session for session in (*sorted(claimed), *header.voters) if contacts.get(session) is None]
    return f"{unknown[0]} is not known to exist" if unknown else ""


def _update(header: Header, chunks: int) -> str:
    if len(header.chunks) != chunks or not all(part.chunks for part in header.parts):
        return f"it has {len(header.chunks)} of {chunks} chunks"
    senders = {member.session for member in header.members if member.buffers}
    missing = {one.session: set(one.chunks) for one in header.exclusions}
    there = all(session in senders and absent <= set(range(chunks)) for session, absent in missing.items())
    if not there or header.exclusions != exclusions_of(missing):
        return "it excludes what was not there"
    if any(part.loud != plausible(part.loud, header.members) for part in header.parts):
        return "it calls gradients loud that cannot be"
    if list(header.on_probation) != sorted({one.user for one in header.members}.intersection(header.on_probation)):
        return "it has users on probation that are not among its members"
    return "" if senders else "nobody has brought gradients"


def _snapshot(header: Header, previous: Header, snapshots: Collection[SnapshotName], every: int) -> str:
    named = header.snapshot
    if header.kind is HeaderKind.ROLLBACK:
        return "" if named is not None and named.step == header.step else "it rolls back to nothing"
    if named == previous.snapshot:
        return ""
    if named is None or not (previous.snapshot.step if previous.snapshot else -1) < named.step <= previous.step:
        return f"it names {named} after {previous.snapshot}"
    if named.step % every:
        return f"it names a snapshot of step {named.step}, and there is one every {every} steps"
    if named not in snapshots and any(one.step == named.step for one in snapshots):
        return f"it names another snapshot of step {named.step} than this peer has"
    return ""
