"""Three hundred people who come and go: who they are, on what they compute, and when they were there."""

import hashlib
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

DAY, HOUR = 86400.0, 3600.0  # seconds
DEVICES = (  # name, samples per second, may be reached from outside, how common
    ("Tesla T4", 2.6, 0.0, 40),
    ("Tesla P100-PCIE-16GB", 3.9, 0.0, 16),
    ("NVIDIA GeForce RTX 3060", 5.1, 0.3, 14),
    ("NVIDIA GeForce RTX 4090", 15.2, 0.5, 4),
    ("NVIDIA A100-SXM4-40GB", 18.5, 0.8, 2),
    ("mps", 1.1, 0.1, 10),
    ("cpu (8 threads)", 0.22, 0.2, 14),
)
COUNTRIES = ("BD", "BD", "BD", "IN", "IN", "GB", "US", "DE", "CA", "AE", "JP", "FR")
AWKWARD = (  # self-chosen names that a page must show as they are
    "~<b>Eve</b> [x](javascript:alert(1))",
    '~"><script>alert(document.title)</script>',
    "~<img src=x onerror=alert(2)>",
    "~*bold* _it_ `code` | a | b | # h",
    "~{{ 7 * 7 }} $x^2$ :red[red] :material/home:",
    "~&lt;already&gt; &amp; escaped",
    "~নৌকা বাইচ",
    "~سلام \u202eabc",
    "~" + "long-" * 12 + "end",
    "~🌊 river 🚣",
)


@dataclass(frozen=True)
class Sitting:
    """One session: when it was there (unix seconds), how fast, and whether it said goodbye at its end."""

    session_id: str
    user: str
    device: str
    country: str | None
    client_mode: bool
    start: float
    end: float
    samples_per_second: float
    left: bool


def sittings(people: int, began: float, now: float, chance: random.Random) -> list[Sitting]:
    """All sessions of so many people, in the order of their beginnings; those that end after `now` are there."""
    found = [one for number in range(people) for one in _of_one(number, began, now, chance)]
    return sorted(found, key=lambda one: (one.start, one.session_id))


def user_name(number: int) -> str:
    """Every fifth is not known to the Hub, and the first of those have awkward names."""
    if number % 5 == 4:
        position = number // 5
        return AWKWARD[position] if position < len(AWKWARD) else f"~user-{number + 1:03}"
    return f"user-{number + 1:03}"


def _of_one(number: int, began: float, now: float, chance: random.Random) -> Iterator[Sitting]:
    user = user_name(number)
    country = chance.choice(COUNTRIES) if chance.random() < 0.4 else None
    zone = chance.choice((6, 5.5, 0, -5, 1, 9)) * HOUR
    always = number % 40 == 7  # a server that runs day and night
    keen = chance.betavariate(1.4, 1.6)  # how much of the days somebody takes part
    days = (now - began) / DAY
    first = 0.0 if number < 12 else days * chance.betavariate(1.1, 2.2)
    last = first + max(1.0, chance.expovariate(1 / 22.0))
    for machine in range(1 + (chance.random() < 0.3) + (chance.random() < 0.1)):
        name, speed, reachable, _ = chance.choices(DEVICES, [common for *_, common in DEVICES])[0]
        client_mode = chance.random() >= reachable
        for half in range(2 * math.floor(first), 2 * math.ceil(min(days, last)) + 2):
            came = half == 2 * math.floor(first) or chance.random() < keen
            if not always and not came:
                continue
            noon = began + half * DAY / 2 - zone
            start = noon + chance.gauss(9.0 if half % 2 else 16.0, 3.0) * HOUR
            length = chance.uniform(20, 40) * HOUR if always else chance.lognormvariate(1.1, 0.7) * HOUR
            killed = chance.random() < 0.3  # a free GPU was taken away, or the lid was closed
            start, end = max(began, start), start + min(length, 12 * HOUR if "T4" in name else math.inf)
            if start < now and end > start + 60:
                told = f"{user} {machine} {start}".encode()
                yield Sitting(
                    hashlib.sha256(told).hexdigest()[:32],
                    user,
                    name,
                    country,
                    client_mode,
                    start,
                    end,
                    speed * chance.uniform(0.85, 1.1),
                    not killed,
                )
