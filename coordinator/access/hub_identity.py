"""Asks the Hugging Face Hub whose token this is. The token is sent to the Hub and stored nowhere."""

import asyncio
import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import httpx

from swarm.access.join_messages import Refusal, Refused
from swarm.tasks import within

KNOWN_FOR = 60.0  # seconds for which an answer is cached
REJECTED_FOR = 10.0  # seconds for which a rejection is cached: the token may be so new that the Hub learns of it later
MOST_KEPT = 4096  # answers in the cache
HUB_TIMEOUT = 10.0  # seconds without a byte from the Hub
THREADS = 8  # questions at the same time
TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")  # what an HTTP header can carry
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
VERIFIED_FOR = 24 * 3600.0  # seconds for which the Hub is not asked again
MOST_VERIFIED = 10_000  # peers whose user is remembered

T = TypeVar("T")

REJECTED = Refused(
    error=Refusal.TOKEN_REJECTED,
    message="the Hugging Face Hub does not know this token; make a new one without any permission at "
    "https://huggingface.co/settings/tokens, and set HF_TOKEN to it or type it where you are asked",
)


@dataclass(frozen=True)
class HubUser:
    """A user of the Hub. `avatar` is a URL."""

    name: str
    organizations: frozenset[str] = frozenset()
    avatar: str | None = None


class Remembered(Generic[T]):
    """Values by key, each for some seconds; of more than `most` the oldest are forgotten. Threads may share it."""

    def __init__(self, most: int, clock: Callable[[], float]):
        self._most, self._clock = most, clock
        self._known: OrderedDict[str, tuple[float, T]] = OrderedDict()  # until when it is good
        self._lock = threading.Lock()

    def note(self, key: str, value: T, seconds: float) -> None:
        """Remember a value for so many seconds."""
        with self._lock:
            self._known[key] = (self._clock() + seconds, value)
            self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def get(self, key: str) -> T | None:
        """The value, if it is still good."""
        until, value = self._known.get(key, (0.0, None))
        return value if self._clock() < until else None

    def keys(self) -> list[str]:
        """Those that are remembered."""
        with self._lock:
            return list(self._known)


# of users who were given a pass since the start, by the name in it; None where there is none
Avatars: TypeAlias = Remembered[str | None]


class Hub:
    """The Hub at `HF_ENDPOINT`, with a short cache keyed by hashes of tokens. Threads may share it."""

    def __init__(self, timeout: float, clock: Callable[[], float] = time.monotonic):
        """After `timeout` seconds, `who_is` waits no longer."""
        self._timeout, self._threads = timeout, ThreadPoolExecutor(THREADS, thread_name_prefix="hub")
        self._known = Remembered[HubUser | Refused](MOST_KEPT, clock)

    async def who_is(self, token: str) -> HubUser | Refused:
        """As `ask`, in a thread: a slow Hub delays the users who need it, and no other route."""
        asked = asyncio.get_running_loop().run_in_executor(self._threads, self.ask, token)
        try:
            async with within(self._timeout):
                return await asked
        except asyncio.TimeoutError:
            message = "the Hugging Face Hub takes too long to say who you are; try again in a minute"
            return Refused(error=Refusal.HUB_AWAY, message=message)

    def ask(self, token: str) -> HubUser | Refused:
        """The user to whom a token belongs. Never raises: an error could carry the token into a log."""
        if TOKEN.fullmatch(token) is None:
            return REJECTED
        endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        key = hashlib.sha256(f"{endpoint} {token}".encode()).hexdigest()
        answer = self._known.get(key)
        if answer is None:
            answer = _ask(token, endpoint)
            if isinstance(answer, HubUser):
                self._known.note(key, answer, KNOWN_FOR)
            elif answer.error is Refusal.TOKEN_REJECTED:
                self._known.note(key, answer, REJECTED_FOR)
        return answer


def _ask(token: str, endpoint: str) -> HubUser | Refused:
    shown = {"Authorization": f"Bearer {token}"}
    try:
        answer = httpx.get(f"{endpoint}/api/whoami-v2", headers=shown, timeout=HUB_TIMEOUT, follow_redirects=True)
        if answer.status_code in (401, 403):
            return REJECTED
        if answer.status_code != 200:
            return _away(endpoint, f"it answers with status {answer.status_code}")
        return read_answer(answer.json(), endpoint)
    except Exception as error:  # of the network, a proxy, JSON: no common class
        return _away(endpoint, type(error).__name__)


def read_answer(content: Any, endpoint: str) -> HubUser | Refused:
    """The user in the Hub's answer."""
    try:
        name, kind = content["name"], content.get("type", "user")
        organizations = frozenset(str(one["name"]) for one in content.get("orgs") or ())
        avatar = content.get("avatarUrl")
    except (TypeError, KeyError, AttributeError):
        return _away(endpoint, "it answers in a form that is not the Hub's")
    if kind != "user":
        message = "this token is an organization's; use a token of your own account"
        return Refused(error=Refusal.TOKEN_REJECTED, message=message)
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        return _away(endpoint, "it answers in a form that is not the Hub's")
    return HubUser(name, organizations, _avatar_url(avatar, endpoint))


def _avatar_url(avatar: object, endpoint: str) -> str | None:
    """The Hub gives its default avatars by their path alone."""
    if not isinstance(avatar, str) or len(avatar) > 500:
        return None
    if avatar.startswith("/") and not avatar.startswith("//"):
        return endpoint + avatar
    return avatar if avatar.startswith(("https://", "http://")) else None


def _away(endpoint: str, reason: str) -> Refused:
    message = f"the Hugging Face Hub cannot be asked who you are ({endpoint}: {reason}); try again in a minute"
    return Refused(error=Refusal.HUB_AWAY, message=message)
