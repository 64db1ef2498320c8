"""Asks the Hugging Face Hub whose token this is. The token is sent to the Hub and stored nowhere."""

import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from huggingface_hub import HfApi, get_session
from huggingface_hub.errors import HfHubHTTPError

from swarm.errors import SwarmError

KNOWN_FOR = 60.0  # seconds for which an answer is cached
REJECTED_FOR = 10.0  # seconds for which a rejection is cached: the token may be so new that the Hub learns of it later
MOST_KEPT = 4096  # answers in the cache
HUB_TIMEOUT = 10.0  # seconds without a byte from the Hub
TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")  # what an HTTP header can carry
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
WHOAMI = "/api/whoami-v2"
VERIFIED_FOR = 24 * 3600.0  # seconds for which the Hub is not asked again
MOST_VERIFIED = 10_000  # peers whose user is remembered

T = TypeVar("T")


class TokenRejected(SwarmError):
    """The Hub does not know the token, or it is not a user's."""


class HubAway(SwarmError):
    """The Hub does not answer, or not as it should."""


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

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._known = Remembered[HubUser | TokenRejected](MOST_KEPT, clock)

    def ask(self, token: str) -> HubUser:
        """The user to whom a token belongs. Waits for the Hub's answer.

        Raises:
            TokenRejected: it is no user's.
            HubAway: the Hub does not answer, or not as it should.
        """
        if TOKEN.fullmatch(token) is None:
            raise _rejected()
        endpoint = os.environ.get("HF_ENDPOINT") or None
        key = hashlib.sha256(f"{endpoint} {token}".encode()).hexdigest()
        answer: HubUser | SwarmError | None = self._known.get(key)
        if answer is None:
            answer = _ask(token, endpoint)
            if isinstance(answer, HubUser | TokenRejected):
                self._known.note(key, answer, KNOWN_FOR if isinstance(answer, HubUser) else REJECTED_FOR)
        if isinstance(answer, HubUser):
            return answer
        # a new one, and outside of any handler: the library's errors carry the request with its headers
        raise type(answer)(str(answer))


def _ask(token: str, endpoint: str | None) -> HubUser | SwarmError:
    api = HfApi(endpoint=endpoint)
    hooks = get_session().event_hooks["request"]
    if _limit_wait not in hooks:
        hooks.append(_limit_wait)
    try:
        return read_answer(api.whoami(token=token), api.endpoint)
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            return _rejected()
        return _away(api.endpoint, f"it answers with status {status}")
    except Exception as error:  # whatever HTTP client the library uses, it has errors of its own
        return _away(api.endpoint, type(error).__name__)


def read_answer(content: Any, endpoint: str) -> HubUser | SwarmError:
    """The user in the Hub's answer."""
    try:
        name, kind = content["name"], content.get("type", "user")
        organizations = frozenset(str(one["name"]) for one in content.get("orgs") or ())
        avatar = content.get("avatarUrl")
    except (TypeError, KeyError, AttributeError):
        return _away(endpoint, "it answers in a form that is not the Hub's")
    if kind != "user":
        return TokenRejected("this token is an organization's; use a token of your own account")
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        return _away(endpoint, "it answers in a form that is not the Hub's")
    return HubUser(name, organizations, _avatar_url(avatar, endpoint))


def _avatar_url(avatar: object, endpoint: str) -> str | None:
    """The Hub gives its default avatars by their path alone."""
    if not isinstance(avatar, str) or len(avatar) > 500:
        return None
    if avatar.startswith("/") and not avatar.startswith("//"):
        return endpoint.rstrip("/") + avatar
    return avatar if avatar.startswith(("https://", "http://")) else None


def _limit_wait(request: Any) -> None:
    """huggingface_hub would wait for the Hub without end, and the volunteer with it."""
    if request.url.path.endswith(WHOAMI):
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), HUB_TIMEOUT)


def _rejected() -> TokenRejected:
    return TokenRejected(
        "the Hugging Face Hub does not know this token; make a new one without any permission at "
        "https://huggingface.co/settings/tokens"
    )


def _away(endpoint: str, reason: str) -> HubAway:
    return HubAway(f"the Hugging Face Hub cannot be asked who you are ({endpoint}: {reason}); try again in a minute")
