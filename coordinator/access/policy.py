"""Decides who may join and under which name: pure functions, without the network or the disk."""

from collections.abc import Collection
from dataclasses import dataclass

from coordinator.access.decisions import Decisions
from coordinator.access.hub_identity import HubUser
from swarm.access.join_messages import JoinRequest, Refusal, Refused
from swarm.access.user_names import LONGEST_CHOSEN, RESERVED, UNVERIFIED, chosen_name
from swarm.identity import peer_id_of
from swarm.language import mark
from swarm.run_file import AccessSection
from swarm.run_file.fingerprint import Fingerprint, differences
from swarm.version import describe_mismatch, release_of

MOST_DIFFERENCES = 5  # that a refusal names
LONGEST_DIFFERENCE = 120  # characters


@dataclass(frozen=True)
class AccessPolicy:
    """What the decision depends on besides the request, at this moment."""

    access: AccessSection
    fingerprint: Fingerprint
    version: str  # of this program
    step: int  # global step
    total_steps: int
    decisions: Decisions


def check_request(request: JoinRequest, policy: AccessPolicy) -> Refused | None:
    """Why a request is refused, as far as that is known without asking the Hub who sent it; None if it is not."""
    return (
        _check_form(request)
        or _check_version(request.version, policy.version)
        or _check_open(request, policy)
        or _check_fingerprint(request, policy.fingerprint)
    )


def admit(request: JoinRequest, who: HubUser | None, policy: AccessPolicy) -> str | Refused:
    """The name for the pass of a request that `check_request` accepts; `who` is None where no token was shown."""
    if who is not None:
        return admit_hub_user(who, request.peer_id, policy.access, policy.decisions)
    if not policy.access.open:
        return Refused(
            error=Refusal.TOKEN_MISSING,
            message="this run asks who you are; show a Hugging Face token, one without any permission is enough "
            "(https://huggingface.co/settings/tokens)",
        )
    chosen = chosen_name(request.name)
    if chosen is None:
        return Refused(
            error=Refusal.MALFORMED,
            message=f"choose a name of 1 to {LONGEST_CHOSEN} visible characters that does not start with "
            f"{' or '.join(RESERVED)}, or show a Hugging Face token",
        )
    user = UNVERIFIED + chosen
    return refuse_if_banned(user, request.peer_id, policy.decisions) or user


def admit_hub_user(who: HubUser, peer_id: str | None, access: AccessSection, decisions: Decisions) -> str | Refused:
    """The name of a Hub user who may take part, with any machine where no peer id is given."""
    if refused := refuse_if_banned(who.name, peer_id, decisions):
        return refused
    if _is_listed(who, access, decisions.allowed):
        return who.name
    return Refused(error=Refusal.NOT_ALLOWED, message=_not_listed(who.name, access))


def refuse_if_banned(user: str, peer_id: str | None, decisions: Decisions) -> Refused | None:
    """The refusal of a user who is banned, by the name in passes, or of a peer that is."""
    if is_among(user, decisions.banned) or peer_id in decisions.banned:
        shown = user.removeprefix(UNVERIFIED)
        return Refused(error=Refusal.BANNED, message=f"{shown} is banned from this run; ask the organizer about it")
    return None


def is_among(name: str, names: Collection[str]) -> bool:
    """Whether a name is listed, in any case: the Hub's names do not differ in case alone."""
    return name.casefold() in {one.casefold() for one in names}


def _check_form(request: JoinRequest) -> Refused | None:
    try:
        expected = str(peer_id_of(request.public_key))
    except ValueError:
        return Refused(error=Refusal.MALFORMED, message="public_key is not an RSA public key in hivemind's form")
    if request.peer_id != expected:
        return Refused(error=Refusal.MALFORMED, message="peer_id is not the hash of public_key")
    return None


def _check_version(theirs: str, ours: str) -> Refused | None:
    there = release_of(theirs)
    if there is None:
        return Refused(error=Refusal.MALFORMED, message="version is not of the form 0.1.0")
    if release_of(ours) != there:
        return Refused(error=Refusal.WRONG_VERSION, message=describe_mismatch(ours, ".".join(there)))
    return None


def _check_open(request: JoinRequest, policy: AccessPolicy) -> Refused | None:
    """Whether the run goes on and lets new peers join; a peer that renews its pass sends a fingerprint."""
    if policy.decisions.stopped:
        return Refused(error=Refusal.FINISHED, message=mark("the organizer has ended this run; thank you for coming"))
    if policy.step >= policy.total_steps:
        return Refused(
            error=Refusal.FINISHED,
            message=f"this run is finished, all {policy.total_steps} global steps are done; thank you for coming",
        )
    if policy.decisions.paused and request.fingerprint is None:
        return Refused(
            error=Refusal.PAUSED,
            message=mark("the organizer has closed this run to newcomers for now; try again later"),
        )
    return None


def _check_fingerprint(request: JoinRequest, ours: Fingerprint) -> Refused | None:
    if request.fingerprint is None:
        return None
    theirs = Fingerprint(tuple(sorted(request.fingerprint.items())))
    found = differences(ours, theirs)
    if not found:
        return None
    named = [_printable(one) for one in found[:MOST_DIFFERENCES]]
    if len(found) > MOST_DIFFERENCES:
        named.append(f"and {len(found) - MOST_DIFFERENCES} more")
    return Refused(
        error=Refusal.WRONG_FINGERPRINT,
        message=f"your peer would train with other settings than the run ({'; '.join(named)}); "
        "install the program that the coordinator has, or join with the run's notebook",
    )


def _is_listed(who: HubUser, access: AccessSection, allowed: frozenset[str]) -> bool:
    return (
        access.open
        or is_among(who.name, access.users)
        or is_among(who.name, allowed)
        or any(is_among(one, access.organizations) for one in who.organizations)
    )


def _not_listed(user: str, access: AccessSection) -> str:
    if access.organizations:
        return (
            f"{user} is not on this run's list, nor a member of {' or '.join(access.organizations)}; "
            "join the organization on the Hub, or ask the organizer"
        )
    return f"{user} is not on this run's list; ask the organizer to add you"


def _printable(text: str) -> str:
    """What a peer has sent, as one short line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_DIFFERENCE])
