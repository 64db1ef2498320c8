"""The ledger is written from headers: once, however often they are read, and also for sessions that are gone."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock, patch

import pytest
from msgspec import structs
from sqlalchemy import Connection, select
from sqlalchemy.orm import DeclarativeBase

from averaging.log.disk import LOG_FILE
from averaging.log.entry_file import EntryFile, Place, Record, entries_after
from averaging.log.header import Ballot, Certificate, Entry, Gap, Header, HeaderKind, Part, Reset
from averaging.shell.audit import Comparison, Verdict
from coordinator.access.decisions import Decisions
from coordinator.cached import Cached
from coordinator.ledger import recorder
from coordinator.ledger.audits.probation import ENOUGH_OF_NOISE, LOOKS
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.recorder import Recorder, has_a_name
from coordinator.ledger.rounds import LOSS, Flag
from coordinator.ledger.storage.database import LedgerError, reading, upsert
from coordinator.ledger.tables import PlaceRow, RoundRow
from coordinator.replica import Applied, Replica
from coordinator.run_context import RunContext
from swarm.errors import StorageError
from swarm.run_file import AccessSection, RunFile
from swarm.run_file.fingerprint import Fingerprint
from tests.averaging.log.headers import FIRST, chain_of, header, member
from tests.coordinator.ledger.agreements import agreement
from tests.coordinator.ledger.audits.test_probation import HEAVY, USERS, step
from tests.coordinator.ledger.audits.test_worth import cosines
from tests.coordinator.ledger.brought import ASHA, BELA, report, samples, update, write
from tests.coordinator.ledger.storage.test_backup import spoil


class Log:
    """A log on the disk, without a peer that writes it."""

    def __init__(self, folder: Path):
        self.path, self.read, self.steps = folder / LOG_FILE, 0, list[Applied]()
        self.audits: list[Verdict | Comparison] = []

    def write(self, *headers: Header) -> None:
        file = EntryFile(self.path)
        file.load()
        file.append([Record(Entry(one, Certificate(FIRST)), is_applied=True) for one in headers])

    def entries_after(self, place: Place | None, most: int) -> tuple[list[Entry], Place | None]:
        found, place = entries_after(self.path, place, most)
        self.read += len(found)
        return found, place

    def applied(self) -> list[Applied]:
        found, self.steps = self.steps, []
        return found

    def found(self) -> list[Verdict | Comparison]:
        found, self.audits = self.audits, []
        return found


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


@pytest.fixture
def record(run: RunFile, tmp_path: Path, log: Log) -> Callable[..., Recorder]:
    """`record(ledger, sessions)`: by default of a swarm in which nobody tells of itself."""

    def make(ledger: Ledger, sessions: Cached[Any] | None = None) -> Recorder:
        context, access = RunContext(run, Fingerprint(()), tmp_path, ledger, print), Mock()
        access.notices.decisions = Decisions(banned=frozenset())
        return Recorder(context, sessions or Cached(list, 0.0), cast(Replica, log), access)

    return make


Make = Callable[..., Recorder]


def test_a_restart_reads_only_headers_that_are_not_entered(tmp_path: Path, log: Log, record: Make):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    log.write(*chain_headers(5))
    record(ledger).bring_up_to_date()
    assert (samples(ledger), log.read) == ({"asha": 50}, 5)
    ledger.close()
    again = open_ledger("sqlite:///ledger.db", tmp_path)
    log.write(*chain_headers(7)[5:])
    for _ in range(3):
        record(again).bring_up_to_date()
    assert (samples(again), log.read) == ({"asha": 70}, 7)


@pytest.mark.parametrize(("seconds", "times"), [(3600.0, 2), (0.0, 11)])
def test_records_of_sessions_are_searched_for_every_few_seconds_and_at_the_end(
    tmp_path: Path, record: Make, seconds: float, times: int
):
    read = Mock(return_value=[])
    one = record(open_ledger("sqlite:///ledger.db", tmp_path), Cached(read, seconds))
    for _ in range(10):
        one.bring_up_to_date()
    one.bring_up_to_date(final=True)
    assert read.call_count == times


def test_a_rollback_in_the_log_is_told_until_its_header_is_entered(
    tmp_path: Path, log: Log, record: Make, monkeypatch: pytest.MonkeyPatch
):
    ledger, told = open_ledger("sqlite:///ledger.db", tmp_path), Mock()
    one = record(ledger)
    one._went_back = told
    log.write(*chain_headers(2), rollback := header(3, kind=HeaderKind.ROLLBACK))
    with monkeypatch.context() as away, pytest.raises(LedgerError):
        away.setattr(ledger, "record", Mock(side_effect=LedgerError("the database is away")))
        one.bring_up_to_date()
    for _ in range(2):
        one.bring_up_to_date()
    assert told.call_args_list == [((rollback,),), ((rollback,),)]


def test_headers_are_entered_in_portions_and_all_of_them_at_the_end(
    tmp_path: Path, log: Log, record: Make, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recorder, "HEADERS_PER_TRANSACTION", 4)
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    log.write(*chain_headers(11))
    one = record(ledger)
    one.bring_up_to_date()
    assert samples(ledger) == {"asha": 40}
    one.bring_up_to_date(final=True)
    assert samples(ledger) == {"asha": 110}


def test_what_a_ledger_that_failed_has_missed_is_entered_without_a_restart(
    tmp_path: Path, log: Log, record: Make, monkeypatch: pytest.MonkeyPatch
):
    ledger, headers = open_ledger("sqlite:///ledger.db", tmp_path), chain_headers(4)
    one = record(ledger)
    log.write(*headers[:2])
    log.steps = [Applied(headers[1], 2.0, 1.5)]

    def upsert_all_but_the_place(connection: Connection, kind: type[DeclarativeBase], *rows: Any, **how: Any) -> None:
        if kind is PlaceRow:
            raise LedgerError("the disk is full")
        upsert(connection, kind, *rows, **how)

    with monkeypatch.context() as patched, pytest.raises(LedgerError):
        patched.setattr("coordinator.ledger.ledger.upsert", upsert_all_but_the_place)
        one.bring_up_to_date()
    assert samples(ledger) == {}  # neither the headers nor the place
    log.write(*headers[2:])
    one.bring_up_to_date()
    assert samples(ledger) == {"asha": 40}
    assert ledger.rounds.gradient_norms(0) == [2.0]


def test_a_copy_that_does_not_fit_is_told_and_is_not_tried_at_each_look(
    tmp_path: Path, log: Log, record: Make, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    tried = Mock(side_effect=StorageError("no room"))
    monkeypatch.setattr(ledger, "back_up", tried)
    one = record(ledger)
    log.write(*chain_headers(4))
    assert [one.bring_up_to_date(), one.bring_up_to_date()] == [0, 0]
    assert samples(ledger) == {"asha": 40}
    assert (capsys.readouterr().out, tried.call_count) == ("problem: no room\n", 1)


def test_what_a_copy_of_the_ledger_lacks_is_entered_after_a_restart(tmp_path: Path, log: Log, record: Make):
    ledger, headers = open_ledger("sqlite:///ledger.db", tmp_path), chain_headers(200)
    one = record(ledger)
    log.write(*headers[:150])
    one.bring_up_to_date()
    ledger.back_up()
    log.write(*headers[150:180])
    one.bring_up_to_date()
    ledger.close()
    spoil(tmp_path / "ledger.db")
    log.write(*headers[180:])
    with pytest.raises(LedgerError, match="a restart"):
        one.bring_up_to_date()
    ledger.close()
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    record(ledger).bring_up_to_date()
    assert (tmp_path / "ledger.db-broken-1").exists()
    assert samples(ledger) == {"asha": 2000}
    assert {(one.samples, one.peers) for one in ledger.steps()} == {(10, 1)}


def test_another_file_is_read_from_its_beginning_and_nothing_counts_twice(tmp_path: Path, log: Log, record: Make):
    """The log was brought back from a copy, or the headers that were missing have come in another order."""
    ledger, headers = open_ledger("sqlite:///ledger.db", tmp_path), chain_headers(6)
    log.write(*headers[:4])
    record(ledger).bring_up_to_date()
    log.path.unlink()
    log.write(*headers[:2], *headers[4:], *headers[2:4])
    record(ledger).bring_up_to_date()
    assert samples(ledger) == {"asha": 60}
    assert log.read == 4 + 6


def test_a_chain_that_has_lost_keeps_its_credit_and_its_successor_has_its_own(tmp_path: Path, log: Log, record: Make):
    """A reset was beaten by a voted header; both chains went on from the same step."""
    common = update(1, ASHA)
    reset = Reset(2, Ballot(9, "coordinator.0"))
    lost = structs.replace(update(2, BELA), previous=common.digest, kind=HeaderKind.RESET, resets=(reset,))
    after = structs.replace(update(3, BELA), previous=lost.digest, resets=(reset,))
    won = structs.replace(update(2, ASHA, BELA), previous=common.digest)
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    one = record(ledger)
    log.write(common, lost, after)
    one.bring_up_to_date()
    log.write(won, lost)
    for _ in range(2):
        one.bring_up_to_date()
    assert samples(ledger) == {"asha": 20, "bela": 30}
    assert [(one.step, one.samples) for one in ledger.steps()] == [(0, 10), (1, 30), (2, 10)]


def test_an_impossible_report_costs_its_session_no_credit(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [report(ASHA, samples_per_second=float("inf")), report(BELA)], update(1, ASHA, BELA))
    assert samples(ledger) == {"asha": 10, "bela": 10}


def test_the_seconds_of_each_round_come_into_the_ledger(tmp_path: Path, log: Log, record: Make):
    """Of updates in whose rounds the coordinator was; and their mean into the row of the minute."""
    ledger, headers = open_ledger("sqlite:///ledger.db", tmp_path), chain_headers(3)
    log.write(*headers)
    log.steps = [Applied(one, 1.0, seconds) for one, seconds in zip(headers, (2.0, None, 6.0), strict=True)]
    log.steps.append(Applied(chain_of(1)[0].header, None, None))  # no update
    record(ledger).bring_up_to_date()
    with reading(ledger._engine) as connection:
        found = connection.execute(select(RoundRow.step, RoundRow.seconds).order_by(RoundRow.step)).all()
    assert [tuple(row) for row in found] == [(0, 2.0), (1, None), (2, 6.0)]
    (minute,) = ledger.history.minutes(10)
    assert minute.averaging_seconds == 4.0


def test_headers_that_the_disk_has_lost_are_asked_for(tmp_path: Path):
    log = Replica.__new__(Replica)
    log._file, log.optimizer = tmp_path / LOG_FILE, Mock()
    entries = chain_of(4)
    write_log(log._file, *entries)
    lines = log._file.read_bytes().splitlines(keepends=True)
    log._file.write_bytes(b"".join([*lines[:2], lines[2][1:], lines[3]]))
    assert log.entries_after(None, 99)[0] == entries[:2] + entries[3:]
    log.optimizer.lacks.assert_called_once_with([Gap(2, entries[2].header.digest, 1)])


def test_a_flag_is_raised_once_however_often_its_headers_are_read(tmp_path: Path, log: Log, record: Make):
    def with_odd_loss(step: int) -> Header:
        others = (structs.replace(member(f"p{number}.0"), samples=10, loss=5.0) for number in range(4))
        odd = structs.replace(member("eve.0", user="eve"), samples=10, loss=9.0)
        return header(step, members=(odd, *others), parts=(Part("p0.0", ("a",)),))

    ledger, headers = open_ledger("sqlite:///ledger.db", tmp_path), [with_odd_loss(step) for step in range(1, 5)]
    log.write(*headers)
    record(ledger).bring_up_to_date()
    log.path.unlink()
    log.write(*headers[::-1])
    record(ledger).bring_up_to_date()
    (flag,) = ledger.rounds.flags()
    assert (flag.user, flag.times) == ("eve", 1)


@pytest.mark.parametrize("name", ["asha\0", "asha\x1b[2J", "\ud800"], ids=["nul", "escape", "surrogate"])
def test_no_flag_has_a_name_that_no_pass_has(name: str):
    assert not has_a_name(Flag(LOSS, name, "eve", 1, "odd")) and not has_a_name(Flag(LOSS, "eve", name, 1, "odd"))
    assert has_a_name(Flag(LOSS, "~র‍্যাঁদা", "eve", 1, "odd"))


@pytest.mark.parametrize("at_coordinators_part", ["honest", "noise"])
def test_who_is_honest_to_the_coordinator_alone_is_found_by_audits(
    tmp_path: Path, log: Log, record: Make, at_coordinators_part: str
) -> None:
    recorded, drawn, users = (
        record(open_ledger("sqlite:///ledger.db", tmp_path)),
        random.Random(3),
        tuple(USERS.items()),
    )
    recorded._run = recorded._run.model_copy(update={"access": AccessSection(robust="enforce")})
    for number in range(1, 2 * LOOKS):
        usual = cosines(drawn)
        noise = agreement(usual | {HEAVY: drawn.gauss(0.0, 0.005)})
        own_part = noise if at_coordinators_part == "noise" else agreement(usual)
        log.audits.append(Comparison(step(number), own_part, users))
        if number % 2:
            log.audits.append(Verdict(step(number), 0, agreement=noise, users=users))
        recorded.bring_up_to_date()
        if recorded._probation.users:
            break
    assert recorded._probation.users == {"user-6"}
    assert (number < 2 * ENOUGH_OF_NOISE - 1) == (at_coordinators_part == "noise")
    cast(Mock, recorded._notices).put_on_probation.assert_called_with(frozenset({"user-6"}))


def test_who_is_to_be_banned_is_banned_while_the_ledger_is_away(tmp_path: Path, record: Make):
    recorded = record(ledger := open_ledger("sqlite:///ledger.db", tmp_path))
    recorded._to_ban = [Flag(LOSS, "eve", "peer", 1, "odd")]
    with patch.object(ledger, "place", side_effect=LedgerError("away")), pytest.raises(LedgerError):
        recorded.bring_up_to_date()
    cast(Mock, recorded._notices).ban.assert_called_once_with("eve", "peer")


def chain_headers(count: int) -> list[Header]:
    return [update(step, ASHA) for step in range(1, count + 1)]


def write_log(path: Path, *entries: Entry) -> None:
    EntryFile(path).append([Record(entry, is_applied=True) for entry in entries])
