"""`/api/me/machines`: a person's machines, and orders to pause and resume them; and the question of those machines."""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from hivemind.p2p import PeerID

from coordinator.access.pause_orders import PauseOrders
from coordinator.access.person_key import PersonalKey
from coordinator.http.key_holders import KEY_SHOWN, KeyHolders
from coordinator.http.request_limits import check_limit
from coordinator.http.responses import Problem, ProblemFound, json_response
from coordinator.http.routes.me import ERRORS
from coordinator.ledger.answers import MachineSummary
from coordinator.run_context import ServiceContext
from swarm import clock
from swarm.access.join_messages import Refusal
from swarm.access.passes import PassRefused, check_pass, read_pass
from swarm.access.pause_messages import (
    PAUSE_ORDER,
    Doing,
    Machine,
    MachineOrder,
    MachinesOfPerson,
    OrderAnswer,
    OrderQuestion,
)
from swarm.rate_limit import RateLimit, address_key

MOST_MACHINES = 200  # of a person that are listed
PAUSES_FOR = 86400.0  # seconds for which a machine that has left for a pause counts as pausing
ORDERS, QUESTIONS, WINDOW = 60, 30, 60.0  # of a person, of a machine, in so many seconds


def my_machine_routes(context: ServiceContext, holder: KeyHolders) -> APIRouter:
    """Orders are in force when they are answered, and survive a restart.

    Raises:
        SwarmError: the orders in the state folder cannot be read.
    """
    router = APIRouter(tags=["me"], responses=ERRORS)
    orders = PauseOrders(context.folder)
    given, asked = RateLimit(ORDERS, WINDOW), RateLimit(QUESTIONS, WINDOW)

    def listed(key: PersonalKey, peer_id: str | None) -> list[MachineSummary]:
        """The machines that the key is for, or the one of them that is named."""
        if key.peer_id is not None and peer_id not in (None, key.peer_id):
            return []
        return context.ledger.people.machines(key.user, MOST_MACHINES, peer_id or key.peer_id)

    def carry_out(request: Request, order: MachineOrder, *, pause: bool) -> Response:
        key = holder(request)
        check_limit(given, key.holder, "orders")
        found = [one.peer_id for one in listed(key, order.peer_id)]
        found += [] if pause else _among(orders.of(key.user), key, order)  # the ledger may not list them any more
        if order.peer_id is not None and not found:
            raise ProblemFound(Problem.NOT_FOUND, "this key does not cover that machine")
        orders.order(key.user, found, paused=pause)
        return machines(request)

    @router.get("/api/me/machines", response_model=MachinesOfPerson, dependencies=[KEY_SHOWN])
    def machines(request: Request) -> Response:
        """What the machines do for which the key is."""
        key, now = holder(request), clock.now()
        found = [
            describe(one, now, ordered=orders.is_paused(key.user, one.peer_id)) for one in listed(key, peer_id=None)
        ]
        return json_response(MachinesOfPerson(user=key.user, machines=found))

    @router.post("/api/me/machines/pause", response_model=MachinesOfPerson, dependencies=[KEY_SHOWN])
    def pause(request: Request, order: MachineOrder) -> Response:
        """Have a machine pause, or all of them; they know it within some 15 s."""
        return carry_out(request, order, pause=True)

    @router.post("/api/me/machines/resume", response_model=MachinesOfPerson, dependencies=[KEY_SHOWN])
    def resume(request: Request, order: MachineOrder) -> Response:
        """Have a machine go on, or all of them, as far as nothing else has them pause."""
        return carry_out(request, order, pause=False)

    @router.post(PAUSE_ORDER, response_model=OrderAnswer)
    def pause_order(request: Request, question: OrderQuestion) -> Response:
        """Tell a machine what its person has ordered."""
        try:
            peer_id, shown = PeerID.from_base58(question.peer_id), read_pass(question.pass_)
            # in a long pause nobody renews it; it says whose machine this is all the same
            check_pass(shown, context.authority.public_key, context.run.name, peer_id, now=0.0)
        except (PassRefused, ValueError):
            problem = "show a pass of this run that was given to this peer"
            raise ProblemFound(Refusal.NOT_ALLOWED, problem) from None
        # passes stand openly in the swarm's records: who asks with another's uses up no attempts but their own
        address = address_key(request.client.host if request.client else "")
        check_limit(asked, f"{question.peer_id} {address}", "questions")
        return json_response(OrderAnswer(paused=orders.is_paused(shown.user, question.peer_id)))

    return router


def _among(peer_ids: frozenset[str], key: PersonalKey, order: MachineOrder) -> list[str]:
    """Those of a person's machines that an order is about and the key is for."""
    return [one for one in peer_ids if key.peer_id in (None, one) and order.peer_id in (None, one)]


def describe(found: MachineSummary, now: float, *, ordered: bool) -> Machine:
    """What a machine does at this time, in unix seconds.

    For a long pause it leaves the run; after a day without a word it may as well be off, unless its person has paused
    it.
    """
    rests = bool(found.pause) and (found.present or ordered or now - found.last_seen < PAUSES_FOR)
    doing = Doing.PAUSING if rests else Doing.TRAINING if found.present else Doing.AWAY
    return Machine(
        peer_id=found.peer_id,
        device=found.device,
        doing=doing,
        pause=found.pause or "" if rests else "",
        ordered=ordered,
        last_seen=found.last_seen,
        samples=found.samples,
        samples_per_second=found.samples_per_second if doing is Doing.TRAINING else 0.0,
    )
