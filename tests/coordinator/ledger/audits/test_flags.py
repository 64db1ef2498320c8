"""What audits say becomes flags: at once where something is proved, and else after some in a row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from unittest.mock import Mock, call

import pytest

from averaging.log.header import Part
from averaging.shell.audit import Fault, Finding, Verdict
from coordinator.access.decisions import Decisions
from coordinator.cached import Cached
from coordinator.ledger.audits.flags import (
    AGAINST,
    DIRECTION,
    MEAN,
    MOST_OF_A_PEER,
    PIECE,
    PROOF,
    Audits,
    read_evidence,
)
from coordinator.ledger.audits.opposing_gradients import AUDITS
from coordinator.ledger.audits.probation import ENOUGH
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.recorder import Recorder
from coordinator.replica import Replica
from coordinator.run_context import RunContext
from swarm.errors import StorageError
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import Fingerprint
from tests.averaging.log.headers import header, member
from tests.coordinator.ledger.agreements import agreement
from tests.coordinator.ledger.test_recorder import Log, update

MEMBERS = tuple(member(f"{name}.0", user=name) for name in ("asha", "bela", "eve"))


USERS = tuple((f"{name}.0", name) for name in ("asha", "bela", "eve"))


def verdict(*findings: Finding, step: int = 5, cosines: dict[str, float] | None = None) -> Verdict:
    """Of one audit, of a chunk that eve has reduced."""
    kept = (b"account", (("asha.0", b"piece"),)) if any(one.is_proof for one in findings) else (b"", ())
    account, pieces = kept
    of = header(step, members=MEMBERS, parts=(Part("eve.0", ("0" * 64,) * 4),))
    return Verdict(of, 3, findings, account, pieces, agreement(cosines or {}), USERS)


def test_what_is_proved_is_said_at_once_and_written_down(tmp_path: Path) -> None:
    audits = Audits(tmp_path / "evidence")
    one = verdict(Finding("eve.0", Fault.FALSE_MEAN, is_proof=True))
    (flag,) = flags = audits.flags(one)
    assert (flag.kind, flag.user, flag.peer_id, flag.step) == (MEAN, "eve", "eve", 4)
    assert flag.what == "gave the swarm a mean of chunk 3 that is not the one of the pieces it had summed"
    audits.keep(one, flags)
    two = verdict(Finding("eve.0", Fault.TWO_PIECES, is_proof=True), step=9)
    (flag,) = flags = audits.flags(two)
    assert flag.kind == PIECE
    audits.keep(two, flags)
    assert [found["step"] for found in read_evidence(tmp_path / "evidence", "eve")] == [4, 8]
    assert read_evidence(tmp_path / "evidence", "asha") == []
    assert (tmp_path / "evidence").stat().st_mode & 0o777 == 0o700


def test_where_another_may_have_done_it_both_are_named_and_nothing_is_kept(tmp_path: Path) -> None:
    audits = Audits(tmp_path / "evidence")
    one = verdict(Finding("eve.0", Fault.FALSE_MEAN), Finding("bela.0", Fault.FALSE_MEAN))
    flags = audits.flags(one)
    assert [flag.user for flag in flags] == ["eve", "bela"]
    assert {flag.what for flag in flags} == {
        "reduced chunk 3, or convened the step, and its mean is not the one of the pieces that were sent"
    }
    audits.keep(one, flags)
    assert read_evidence(tmp_path / "evidence", "eve") == []


@pytest.mark.parametrize("fault", [Fault.NO_PIECE, Fault.NO_ACCOUNT])
def test_what_is_not_shown_is_said_after_three_audits_in_a_row(tmp_path: Path, fault: Fault) -> None:
    """Each role counts for itself: a reducer that keeps its account shows its pieces."""
    audits, silent = Audits(tmp_path), Finding("eve.0", fault)
    said = [audits.flags(verdict(*one)) for one in ([silent], [silent], [], [silent], [silent], [silent], [silent])]
    assert [len(flags) for flags in said] == [0, 0, 0, 0, 0, 1, 0]
    (flag,) = said[5]
    assert (flag.kind, flag.user) == (PROOF, "eve")


def test_a_name_that_only_a_header_says_is_not_believed(tmp_path: Path) -> None:
    of = header(5, members=(member("second.0", user="alice"), *MEMBERS), parts=(Part("eve.0", ("0" * 64,) * 4),))
    lie = Verdict(of, 3, (Finding("second.0", Fault.TWO_PIECES, is_proof=True),), b"account", users=USERS)
    (flag,) = Audits(tmp_path).flags(lie)
    assert (flag.user, flag.peer_id) == ("second", "second")


def test_no_peer_fills_the_folder_of_evidence(tmp_path: Path) -> None:
    audits = Audits(tmp_path / "evidence")
    for step in range(1, 12):
        one = verdict(Finding("eve.0", Fault.FALSE_MEAN, is_proof=True), step=step)
        audits.keep(one, audits.flags(one))
    assert len(read_evidence(tmp_path / "evidence", "eve")) == MOST_OF_A_PEER


def test_gradients_against_the_others_are_said_after_twelve_audits(tmp_path: Path) -> None:
    audits = Audits(tmp_path)
    turned = {"asha.0": 0.3, "bela.0": -0.01, "eve.0": -0.2}
    said = [flag for _ in range(2 * AUDITS) for flag in audits.flags(verdict(cosines=turned))]
    assert [(flag.kind, flag.user) for flag in said] == [(DIRECTION, "eve"), (AGAINST, "eve")]
    assert "cosine -0.20 in 12 audits" in said[0].what and "in 24 audits" in said[1].what


@dataclass
class Coordinator:
    """A recorder with what it reads and writes, in a swarm in which nobody tells of itself."""

    recorder: Recorder
    log: Log
    ledger: Ledger
    notices: Mock
    said: list[str]


@pytest.fixture
def coordinator(run: RunFile, tmp_path: Path) -> Iterator[Callable[[str], Coordinator]]:
    """`coordinator("watch")`: of a run that watches."""
    log, ledger = Log(tmp_path), open_ledger("sqlite:///ledger.db", tmp_path)
    access, said = Mock(), list[str]()
    access.notices.decisions = Decisions(banned=frozenset())

    def make(robust: str) -> Coordinator:
        of = run.model_copy(update={"access": run.access.model_copy(update={"robust": robust})})
        context = RunContext(of, Fingerprint(()), tmp_path, ledger, said.append)
        made = Recorder(context, Cached(list, 0.0), cast(Replica, log), access)
        return Coordinator(made, log, ledger, access.notices, said)

    yield make
    ledger.close()


Make = Callable[[str], Coordinator]
STEP, TWO = update(5, "asha.0", "bela.0"), (("asha.0", "asha"), ("bela.0", "bela"))


@pytest.mark.parametrize("robust", ["watch", "enforce"])
def test_of_whom_a_lie_is_proved_is_flagged_and_shut_out_where_the_run_enforces(coordinator: Make, robust: str) -> None:
    one = coordinator(robust)
    proved, perhaps = Finding("asha.0", Fault.FALSE_MEAN, is_proof=True), Finding("bela.0", Fault.FALSE_MEAN)
    one.log.audits = [Verdict(STEP, 0, (proved, perhaps), b"account", users=TWO)]
    one.recorder.bring_up_to_date()
    assert {flag.user for flag in one.ledger.rounds.flags()} == {"asha", "bela"}
    assert one.said[0].startswith("attention: asha gave the swarm a mean")
    assert one.notices.ban.call_args_list == ([call("asha", "asha")] if robust == "enforce" else [])


def test_one_who_works_against_the_others_is_shut_out_where_the_run_enforces(coordinator: Make) -> None:
    one = coordinator("enforce")
    one.log.audits = [Verdict(STEP, 0, agreement=agreement({"asha.0": 0.2, "bela.0": -0.2}), users=TWO)] * (2 * AUDITS)
    one.notices.ban.side_effect = StorageError("the disk is full")
    one.recorder.bring_up_to_date()
    assert not any("banned" in line for line in one.said)
    one.notices.ban = Mock()
    one.recorder.bring_up_to_date()
    assert one.notices.ban.call_args_list == [call("bela", "bela")]
    assert one.said[-1] == "bela is banned; `sahaj admin LINK unban bela` undoes that."


@pytest.mark.parametrize("robust", ["watch", "enforce"])
def test_whose_gradients_are_of_doubtful_use_counts_with_less_where_the_run_enforces(
    coordinator: Make, robust: str
) -> None:
    one, step = coordinator(robust), update(5, *(f"user{number}.0" for number in range(6)))
    users = tuple((member.session, member.session[:-2]) for member in step.members)
    eve = max(step.members, key=lambda member: (member.weight, member.session)).session
    cosines = {session: 0.0 if session == eve else 0.2 for session, _ in users}
    one.log.audits = [Verdict(step, 0, agreement=agreement(cosines), users=users)] * ENOUGH
    one.recorder.bring_up_to_date()
    put = [call.args[0] for call in one.notices.put_on_probation.call_args_list]
    assert put == ([{eve[:-2]}] if robust == "enforce" else [])
    lines = [line for line in one.said if "left out of the mean until" in line]
    assert len(lines) == (robust == "enforce") and not one.notices.ban.called
