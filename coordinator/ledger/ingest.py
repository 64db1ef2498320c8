"""Decides, without a database, what sessions' reports and headers change in the ledger.

Reports and headers come late or twice. `gather` updates the sessions and finds the contributions that may be new. The
database then says which headers really are, and `add_up` sums up their members' contributions.
"""

import datetime
import logging
import math
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

logger = logging.getLogger(__name__)

PRESENT_SECONDS = 120.0  # a session silent for longer is gone, as in swarm/dht/records.py, which is slow to import
_LARGEST = 2**40  # above any honest count, and eight million of them still add up within 64 bits
_FASTEST = 1e6  # samples a second: above any honest machine's, and one lie moves a mean no further

COUNTED = ("samples", "tokens", "tokens_served")  # of a session, by the coordinator

Row = dict[str, Any]  # a row of a table, by column
Key = tuple[str, str]  # digest of a header, and session id


@dataclass(frozen=True)
class Contribution:
    """What one session contributed to one global step: samples, their tokens, and their mean loss in nats.

    `header` is the digest of the header that says so, in 64 hexadecimal digits.
    """

    header: str
    step: int
    samples: int
    tokens: int
    loss: float


@dataclass(frozen=True)
class SessionReport:
    """What one session says about itself; times are unix seconds, counts are since its start.

    `contributions` are what headers credit to it that were read since the last report, for all their members at once.
    `served` are tokens that experts of hosts have served it, by their peer ids.
    `country` is a code of ISO 3166, if the person gave it. `pause` says why it computes nothing, if it does not.
    """

    session_id: str
    user: str
    peer_id: str
    client_mode: bool
    started: float
    last_seen: float
    step: int
    device: str = ""
    samples_per_second: float = 0.0
    averaging_rounds: int = 0
    averaging_failures: int = 0
    data_wait_fraction: float = 0.0
    left: bool = False
    contributions: tuple[Contribution, ...] = ()
    country: str | None = None
    hosts_experts: bool = False
    served: Mapping[str, int] = field(default_factory=dict)
    pause: str = ""


_COLUMNS = {  # of a session, by field of its report
    name: {"user": "user_name", "left": "has_left"}.get(name, name)
    for name in SessionReport.__dataclass_fields__
    if name not in ("contributions", "served")
}


@dataclass
class Batch:
    """Rows of sessions after these reports, contributions that may be new, and new seconds of presence by user.

    `accepted` are the reports that went into it, the last one of each session.
    """

    accepted: dict[str, SessionReport] = field(default_factory=dict)
    sessions: dict[str, Row] = field(default_factory=dict)
    candidates: dict[Key, Contribution] = field(default_factory=dict)
    presence: dict[str, float] = field(default_factory=dict)


def gather(
    reports: Iterable[SessionReport],
    standing: Mapping[str, Row],
    now: float,
) -> Batch:
    """Apply these reports to the sessions in the ledger.

    A session belongs to the user and the peer that reported it first; reports by others under its name are ignored,
    and so are impossible values. A report that is older than the one before may carry what headers credit, but
    does not turn a session back.

    Args:
        standing: rows of sessions in the ledger, by id.
        now: unix time by the coordinator's clock.
    """
    batch = Batch()
    for report in reports:
        name = report.session_id
        if not is_plausible(report, now):
            logger.warning("ignored an impossible report of peer %.64r", report.peer_id)
            continue
        row = batch.sessions.get(name) or standing.get(name)
        if row is None:
            row = _reported(report) | {"heard": now, "seconds": 0.0} | dict.fromkeys(COUNTED, 0)
        elif (row["user_name"], row["peer_id"]) != (report.user, report.peer_id):
            logger.warning("ignored peer %s, which claims the session of another", report.peer_id)
            continue
        elif report.last_seen >= row["last_seen"]:
            heard = now if report.last_seen > row["last_seen"] else row["heard"]  # else it has only been credited
            here = seconds_here(row["heard"], heard)
            row = {**row, **_reported(report), "heard": heard, "seconds": row["seconds"] + here}
            if here:
                batch.presence[report.user] = batch.presence.get(report.user, 0.0) + here
        batch.accepted[name], batch.sessions[name] = report, row
        for one in report.contributions:
            if one.samples:
                batch.candidates.setdefault((one.header, name), one)
    return batch


@dataclass
class Sums:
    """Rows to write: sessions as they are now, and what is to be added to global steps and to users' days."""

    sessions: dict[str, Row] = field(default_factory=dict)
    steps: dict[int, Row] = field(default_factory=dict)
    days: dict[str, Row] = field(default_factory=dict)


def add_up(batch: Batch, new: Collection[str], now: float) -> Sums:
    """The rows to write, once it is known which headers are new."""
    sums = Sums(sessions={name: dict(row) for name, row in batch.sessions.items()})
    day = day_of(now)
    for user, seconds in batch.presence.items():
        sums.days[user] = _nothing_on(day, user) | {"seconds": seconds}
    for (header, name), one in batch.candidates.items():
        if header not in new:
            continue
        step, session = one.step, sums.sessions[name]
        user = session["user_name"]
        summary = sums.steps.setdefault(
            step, {"step": step, "samples": 0, "tokens": 0, "peers": 0, "loss_sum": 0.0, "time": now}
        )
        of_day = sums.days.setdefault(user, _nothing_on(day, user))
        for row in (session, summary, of_day):
            row["samples"] += one.samples
            row["tokens"] += one.tokens
        summary["peers"] += 1
        summary["loss_sum"] += one.loss * one.samples
    return sums


def _nothing_on(day: datetime.date, user: str) -> Row:
    """The row of a user's day on which nothing was counted."""
    return {"day": day, "user_name": user, "samples": 0, "tokens": 0, "seconds": 0.0, "tokens_served": 0}


def seconds_here(heard: float, now: float) -> float:
    """Seconds that a session was present since its last report: a long silence counts as `PRESENT_SECONDS`."""
    return min(max(0.0, now - heard), PRESENT_SECONDS)


def day_of(now: float) -> datetime.date:
    """The day, UTC, of a unix time."""
    return datetime.datetime.fromtimestamp(now, datetime.timezone.utc).date()


def is_plausible(report: SessionReport, now: float) -> bool:
    """Whether a database can hold the report, sums stay true with it, and its times are none of the future.

    Record validators check types; a signed infinity or a number beyond 64 bits passes them. What they bound is not
    checked again: country, cause of a pause, and tokens served.
    """
    return (
        0 <= report.step <= _LARGEST
        and 0 <= report.averaging_rounds <= _LARGEST
        and 0 <= report.averaging_failures <= _LARGEST
        and 0 <= report.started <= report.last_seen <= now + PRESENT_SECONDS  # not of a NaN either
        and 0 <= report.samples_per_second <= _FASTEST
        and 0 <= report.data_wait_fraction <= 1
        and all(
            0 <= one.step <= _LARGEST
            and 0 <= one.samples <= _LARGEST
            and 0 <= one.tokens <= _LARGEST
            and math.isfinite(one.loss)
            and abs(one.loss) <= _LARGEST
            for one in report.contributions
        )
        and all(map(is_text, (report.session_id, report.user, report.peer_id, report.device)))
    )


@lru_cache(maxsize=65536)
def is_text(word: str) -> bool:
    """Whether it has no control characters and lone surrogates; joiners are part of names in many scripts."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in word)


def _reported(report: SessionReport) -> Row:
    return {column: getattr(report, name) for name, column in _COLUMNS.items()}
