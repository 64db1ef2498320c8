"""Tokens that experts of hosts have served: what of it is credited to their users.

Trainers tell in their records how many tokens each host served them since their sessions began. It counts for the
host's user if the trainer is somebody else, and all hosts together are credited no more than a session can have needed
for the samples that headers credit to it. What was counted is kept beside what was told, so a record that is read
again changes nothing.
"""

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select, update

from coordinator.ledger.ingest import Row, SessionReport
from coordinator.ledger.storage.database import rows_in, upsert
from coordinator.ledger.tables import ServedRow, SessionRow
from coordinator.ledger.teams.credit import credit_days


@dataclass(frozen=True)
class ServingBound:
    """How many tokens hosts can have served a session, by what it was credited.

    Args:
        experts_of_a_row: that are called for each token, at most.
        masked_fraction: of the tokens. Experts get masked ones, and the first one of each sample.
    """

    experts_of_a_row: int
    masked_fraction: float

    def most(self, session: Mapping[str, Any]) -> int:
        """For the samples and tokens in a session's row."""
        masked = math.ceil(session["tokens"] * self.masked_fraction)
        return self.experts_of_a_row * (masked + int(session["samples"]))


def newly_counted(told: Mapping[str, int], counted: Mapping[str, int], most: int) -> dict[str, int]:
    """Tokens to count now, by host; if they are too many, each host gets the same share of what it was said to serve.

    Args:
        told: by one session, of each host, since it began.
        counted: of that, until now.
        most: of all hosts together.
    """
    wanted = {host: more for host, tokens in told.items() if (more := tokens - counted.get(host, 0)) > 0}
    left, total = max(0, most - sum(counted.values())), sum(wanted.values())
    if total > left:
        wanted = {host: more * left // total for host, more in wanted.items()}
    return {host: more for host, more in wanted.items() if more}


def count_served(
    connection: Connection,
    reports: Mapping[str, SessionReport],
    sessions: Mapping[str, Row],
    bound: ServingBound,
    day: datetime.date,
) -> None:
    """Credit hosts with what these reports tell, in the transaction that has written their sessions.

    Args:
        reports: by session.
        sessions: their rows, as written.
        day: for which it counts.
    """
    known = _read(connection, reports)
    hosts = _hosts(connection, {host for one in reports.values() for host in one.served} | {host for _, host in known})
    rows: list[Row] = []
    new: dict[str, int] = {}  # tokens by host
    for name, report in reports.items():
        before = {host: row for (session, host), row in known.items() if session == name}
        told = {host: row["told"] for host, row in before.items()}
        for host, tokens in report.served.items():
            if host in hosts and hosts[host][1] != report.user:
                told[host] = max(tokens, told.get(host, 0))
        counted = {host: row["counted"] for host, row in before.items()}
        more = newly_counted(told, counted, bound.most(sessions[name]))
        for host, tokens in told.items():
            row = {"told": tokens, "counted": counted.get(host, 0) + more.get(host, 0)}
            if host not in before or row.items() - before[host].items():
                rows.append({"session_id": name, "host": host} | row)
        for host, tokens in more.items():
            new[host] = new.get(host, 0) + tokens
    upsert(connection, ServedRow, rows)
    _credit(connection, {hosts[host]: tokens for host, tokens in new.items() if host in hosts}, day)


def _read(connection: Connection, names: Iterable[str]) -> dict[tuple[str, str], Row]:
    """What is known of these sessions, by session and host."""
    rows = rows_in(connection, select(ServedRow.__table__), ServedRow.session_id, names)
    return {(row["session_id"], row["host"]): {"told": row["told"], "counted": row["counted"]} for row in rows}


def _hosts(connection: Connection, peers: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The newest session of each of these peers that hosts experts, and its user."""
    query = select(SessionRow.__table__).where(SessionRow.hosts_experts).order_by(SessionRow.started)
    rows = rows_in(connection, query, SessionRow.peer_id, peers)
    return {row["peer_id"]: (row["session_id"], row["user_name"]) for row in rows}


def _credit(connection: Connection, tokens: Mapping[tuple[str, str], int], day: datetime.date) -> None:
    of_users: dict[str, int] = {}
    for (session, user), served in tokens.items():
        more = SessionRow.tokens_served + served
        connection.execute(update(SessionRow).where(SessionRow.session_id == session).values(tokens_served=more))
        of_users[user] = of_users.get(user, 0) + served
    rows = [
        {"day": day, "user_name": user, "samples": 0, "tokens": 0, "seconds": 0.0, "tokens_served": served}
        for user, served in of_users.items()
    ]
    credit_days(connection, rows)
