"""Asking the coordinator where it is now: at the link that one joined by, or where its signed notices say it went."""

from collections.abc import Callable
from typing import TypeVar

from app.join.address import is_private
from app.join.coordinator_client import Door
from app.join.problems import CoordinatorAway, NoAnswer, NoSuchHost, TlsProblem

T = TypeVar("T")
AWAY = (CoordinatorAway, NoAnswer, NoSuchHost, TlsProblem)


def ask_where_it_is(link: str, told: str, ask: Callable[[Door], T]) -> T:
    """Ask at the link; if nobody is there, at the URL of the newest notices.

    Args:
        link: by which this peer joined.
        told: in the notices; empty if they name none.

    Raises:
        JoinProblem: as `ask` does, at the link.
    """
    try:
        with Door(link) as door:
            return ask(door)
    except AWAY:
        if not may_follow(link, told):
            raise
        with Door(told) as door:
            return ask(door)


def may_follow(link: str, told: str) -> bool:
    """Whether what is sent to the link may be sent there, too: a token must not leave encryption behind."""
    elsewhere = told != "" and told.rstrip("/") != link.rstrip("/")
    as_safe = told.startswith("https://") or link.startswith("http://")
    as_far = is_private(link) or not is_private(told)  # an address of one's own network is another machine elsewhere
    return elsewhere and as_safe and as_far
