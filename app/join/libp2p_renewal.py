"""Renewing the pass over libp2p, where the coordinator's HTTP service does not answer."""

import base64
from typing import Protocol

from hivemind.dht import DHT
from pydantic import TypeAdapter, ValidationError

from app.join.current_address import AWAY
from app.join.problems import REFUSALS, HubAway, NoAnswer, NotACoordinator, TooManyAttempts, one_line
from swarm.access.join_messages import JoinRequest, Refused, RenewalRequest, Renewed
from swarm.access.notices import Notices
from swarm.access.passes import Pass
from swarm.access.renewal import ask_coordinator

INSTEAD = (*AWAY, NotACoordinator, HubAway, TooManyAttempts)  # what over HTTP is no word of the organizer's
ANSWER: TypeAdapter[Renewed | Refused] = TypeAdapter(Renewed | Refused)


class Shown(Protocol):
    """The part of `swarm.access.gate.Gate` that is needed here."""

    run_name: str

    @property
    def own(self) -> Pass:
        """This peer's newest pass."""

    @property
    def notices(self) -> Notices:
        """The newest that have been heard."""


def renew_directly(dht: DHT, gate: Shown, request: JoinRequest) -> Renewed:
    """Ask the peer that the notices name for a new pass, and show the old one; no token leaves this machine.

    Raises:
        JoinProblem: it is not known or does not answer, or refuses.
    """
    if not gate.notices.coordinator:
        raise NoAnswer("the coordinator has not told its peer id")
    shown = {"pass": base64.b64encode(gate.own.to_bytes())}
    asked = RenewalRequest.model_validate(request.model_dump() | shown).model_dump_json(by_alias=True).encode()
    answered = ask_coordinator(dht, gate.run_name, gate.notices.coordinator, asked)
    try:
        answer = ANSWER.validate_json(answered or b"")
    except ValidationError:
        raise NoAnswer("the coordinator does not answer over libp2p") from None
    if isinstance(answer, Refused):
        raise REFUSALS[answer.error](one_line(answer.message))
    return answer
