"""Sends messages to webhooks, each in a thread of its own, so that neither the run nor another webhook waits for one.

The URLs are secrets: they come from the environment, and neither a log nor the run file has them.
"""

import queue
import secrets
import threading
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit, urlunsplit

import httpx

from swarm.errors import SahajError
from swarm.hosts import is_this_machine
from swarm.secret_variables import WEBHOOKS, secret

PENDING = 32  # messages that wait for a webhook
ATTEMPTS = 8  # for a message: with these pauses ten minutes
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 900.0  # seconds between two attempts
PATIENCE = 20.0  # seconds for an answer


class WebhookError(SahajError):
    """The environment names a webhook that is not one."""

    exit_status = 2


class Webhooks:
    """All webhooks of a run, maybe none."""

    def __init__(self, urls: list[str], say: Callable[[str], None]):
        """Start a thread for each URL."""
        self._hooks = [_Webhook(url, say) for url in urls]

    def tell(self, text: str) -> None:
        """Send a message to all of them; returns at once and never raises."""
        for hook in self._hooks:
            hook.tell(text)

    def finish(self, timeout: float) -> None:
        """Send what is left, for at most `timeout` seconds each, without another attempt."""
        for hook in self._hooks:
            hook.finish(timeout)


def read_webhooks() -> list[str]:
    """The URLs that the environment names, with spaces between them.

    Raises:
        WebhookError: one of them is no URL; it is not shown.
    """
    urls = secret(WEBHOOKS).split()
    for place, url in enumerate(urls, 1):
        check(url, place)
    return urls


class _Webhook:
    """One address, with the messages that wait for it."""

    def __init__(self, url: str, say: Callable[[str], None]):
        self._url, self._say = url, say
        self._pending: queue.Queue[str | None] = queue.Queue(PENDING)
        self._leaving = threading.Event()
        self._failing = False  # as reported
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def tell(self, text: str) -> None:
        try:
            self._pending.put_nowait(text)
        except queue.Full:
            self._report("it does not keep up")

    def finish(self, timeout: float) -> None:
        self._leaving.set()
        try:
            self._pending.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _work(self) -> None:
        with httpx.Client(timeout=PATIENCE) as client:
            while (text := self._pending.get()) is not None:
                self._send(client, text)

    def _send(self, client: httpx.Client, text: str) -> None:
        try:
            request = make_request(self._url, text, secrets.token_hex(8))
        except Exception as error:
            self._report(type(error).__name__)
            return
        pause, wanted, problem = FIRST_PAUSE / 2, 0.0, ""
        for attempt in range(ATTEMPTS):
            if attempt and self._leaving.wait(min(max(pause, wanted), LONGEST_PAUSE)):
                break
            pause, wanted = pause * 2, 0.0
            try:
                answer = client.send(request)
                if answer.is_success:
                    self._failing = False
                    return
                problem = f"HTTP {answer.status_code}"
                if not may_pass(answer.status_code):
                    break
                wanted = seconds_asked_for(answer)
            except Exception as error:  # its text may have the URL
                problem = type(error).__name__
        self._report(problem)

    def _report(self, problem: str) -> None:
        if not self._failing:
            self._failing = True
            host = urlsplit(self._url).hostname
            self._say(
                f"problem: the webhook at {host} takes no messages ({problem}); the run goes on, and later failures "
                f"are not shown. Look at its address in {WEBHOOKS}"
            )


def check(url: str, place: int) -> None:
    """Refuse what is no webhook, by its place in the list.

    Raises:
        WebhookError: it is none, or would be sent unencrypted.
    """
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and (parts.scheme == "https" or is_this_machine(parts.hostname or ""))
        make_request(url, "", "")
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable:
        raise WebhookError(f"{WEBHOOKS}: entry {place} is not an https URL; separate several by spaces")


def make_request(url: str, text: str, number: str) -> httpx.Request:
    """The request that shows a message in a room, as the kind of service wants it, which is known by the URL.

    Matrix: the URL of the client-server API that sends to a room, with `?access_token=`. Discord: its webhooks. Others:
    those of Slack, which Mattermost, Rocket.Chat and Google Chat understand, too.

    Args:
        number: of the message, the same in each attempt.
    """
    parts = urlsplit(url)
    if "/_matrix/client/" in parts.path:
        token = parse_qs(parts.query).get("access_token", [""])[0]
        address = urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}/{number}", "", ""))
        content = {"msgtype": "m.notice", "body": text}
        return httpx.Request("PUT", address, json=content, headers={"Authorization": f"Bearer {token}"})
    if "/api/webhooks/" in parts.path:
        return httpx.Request("POST", url, json={"content": text, "allowed_mentions": {"parse": []}})
    return httpx.Request("POST", url, json={"text": text})


def may_pass(status: int) -> bool:
    """Whether a later attempt may have another answer."""
    return status in (408, 425, 429) or status >= 500


def seconds_asked_for(answer: httpx.Response) -> float:
    """How long the service wants to be left alone."""
    try:
        return float(answer.headers.get("retry-after", 0))
    except ValueError:
        return 0.0
