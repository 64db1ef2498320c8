"""How a peer that has joined reaches its coordinator, which may be away or have moved.

Over HTTP it asks at the link by which it joined and, if nothing answers there, at the URL in the organizer's signed
notices; over libp2p it asks the peer that the notices name.
"""

import base64
from collections.abc import Callable
from typing import TypeVar

from hivemind.dht import DHT
from pydantic import TypeAdapter, ValidationError

from app.join.address import is_private
from app.join.coordinator_client import CoordinatorClient
from app.join.problems import AWAY, JoinProblem, Problem, one_line
from swarm.access.gate import Gate
from swarm.access.join_messages import JoinRequest, Refused, RenewalRequest, Renewed
from swarm.access.renewal import ask_coordinator

ANSWER: TypeAdapter[Renewed | Refused] = TypeAdapter(Renewed | Refused)
T = TypeVar("T")


class CoordinatorContact:
    """Asks one coordinator for newer passes and notices. Every call raises a JoinProblem if it fails.

    Each call opens its own connection: the peer forks, and its helper processes must not share one.
    """

    def __init__(self, link: str, gate: Gate, request: JoinRequest, token: str | None):
        self._link, self._gate, self._request, self._token = link, gate, request, token

    def renew(self) -> Renewed:
        """Ask for a new pass over HTTP, with the Hub token."""
        return self._ask(lambda client: client.join(self._request, self._token))

    def fetch_notices(self) -> bytes:
        """Ask for the signed notices over HTTP."""
        return self._ask(CoordinatorClient.notices)

    def renew_over_libp2p(self, dht: DHT) -> Renewed:
        """Ask for a new pass by showing the old one; the token stays on this machine."""
        gate = self._gate
        if not gate.notices.coordinator:
            raise JoinProblem(Problem.NO_ANSWER, "the coordinator has not told its peer id")
        shown = {"pass": base64.b64encode(gate.own.to_bytes())}
        request = RenewalRequest.model_validate(self._request.model_dump() | shown).model_dump_json(by_alias=True)
        answered = ask_coordinator(dht, gate.run_name, gate.notices.coordinator, request.encode())
        try:
            answer = ANSWER.validate_json(answered or b"")
        except ValidationError:
            raise JoinProblem(Problem.NO_ANSWER, "the coordinator does not answer over libp2p") from None
        if isinstance(answer, Refused):
            raise JoinProblem(Problem[answer.error.name], one_line(answer.message))
        return answer

    def _ask(self, question: Callable[[CoordinatorClient], T]) -> T:
        try:
            with CoordinatorClient(self._link) as client:
                return question(client)
        except JoinProblem as problem:
            moved_to = self._gate.notices.url
            if problem.kind not in AWAY or not may_follow(self._link, moved_to):
                raise
            with CoordinatorClient(moved_to) as client:
                return question(client)


def may_follow(link: str, moved_to: str) -> bool:
    """Whether what is sent to the link may be sent there, too: a token must not leave encryption behind."""
    elsewhere = moved_to != "" and moved_to.rstrip("/") != link.rstrip("/")
    as_safe = moved_to.startswith("https://") or link.startswith("http://")
    # a private address of the coordinator's network is another machine in ours
    as_far = is_private(link) or not is_private(moved_to)
    return elsewhere and as_safe and as_far
