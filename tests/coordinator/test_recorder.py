"""The ledger is written from headers: once, however often they are read, and also for sessions that are gone."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from averaging.log.credit import session_id
from averaging.log.disk import LOG_FILE
from averaging.log.header import Exclusion, Header, Part
from averaging.log.log_file import LogFile
from averaging.log.state import Layout, State
from coordinator.checkpoints import CheckpointError, LoadedCheckpoint, TrainerState
from coordinator.ledger import Ledger, SessionReport, open_ledger
from coordinator.recorder import as_its_own, credited, ledger_id, seen_round
from coordinator.run_log import Committed, saved, set_older_log_aside, state_of
from tests.averaging_log.headers import chain_of, header, member

NOW = 1_800_000_000.0
ASHA, BELA = "asha.1", "bela.0"


def report(session: str, **fields: object) -> SessionReport:
    plain: dict[str, object] = {
        "session_id": session_id(session),
        "user": session.partition(".")[0],
        "peer_id": session.partition(".")[0],
        "client_mode": False,
        "device": "cpu",
        "started": NOW - 60,
        "last_seen": NOW,
        "step": 1,
        "samples_per_second": 9.0,
        "averaging_rounds": 1,
        "averaging_failures": 0,
        "data_wait_fraction": 0.0,
        "left": False,
    }
    return as_its_own(SessionReport(**{**plain, **fields}))  # type: ignore[arg-type]


def update(step: int, *sessions: str, without: str = "") -> Header:
    members = tuple(replace(member(one, 20, one.partition(".")[0]), samples=10, loss=6.0) for one in sessions)
    exclusions = (Exclusion(without, 0),) if without else ()
    return header(step, members=members, parts=(Part(sessions[0], ("a", "b")),), exclusions=exclusions)


def write(ledger: Ledger, reports: list[SessionReport], *headers: Header, now: float = NOW) -> None:
    """As the recorder does."""
    names = {ledger_id(one.session) for each in headers for one in each.members}
    known = ledger.known_sessions(names.difference(one.session_id for one in reports))
    ledger.record(credited(reports, headers, known, 0.2, now), now)


def samples(ledger: Ledger) -> dict[str, int]:
    return {one.user: one.samples for one in ledger.sessions(NOW)}


def test_members_are_credited_with_what_was_included(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [report(ASHA), report(BELA)], update(1, ASHA, BELA), update(2, ASHA, BELA, without=BELA))
    assert samples(ledger) == {"asha": 20, "bela": 15}
    assert [(one.step, one.samples, one.peers, one.loss) for one in ledger.steps()] == [
        (0, 20, 2, 6.0),
        (1, 15, 2, 6.0),
    ]
    assert ledger.totals().tokens == 350


def test_headers_that_are_read_again_after_a_crash_change_nothing(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [report(ASHA)], update(1, ASHA))
    again = open_ledger("sqlite:///ledger.db", tmp_path)
    write(again, [report(ASHA)], update(1, ASHA), update(2, ASHA))
    assert samples(again) == {"asha": 20}


def test_a_session_that_never_told_of_itself_is_there_by_its_header(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [], update(1, ASHA))
    (session,) = ledger.sessions(NOW)
    assert (session.user, session.peer_id, session.samples, session.present) == ("asha", "asha", 10, True)


def test_a_session_that_has_left_stays_as_it_was(tmp_path: Path):
    """The coordinator was away when it brought its last samples, and learns of them from the headers."""
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    write(ledger, [report(ASHA, left=True, device="H200")], update(1, ASHA))
    write(ledger, [], update(2, ASHA), now=NOW + 3600)
    (session,) = ledger.sessions(NOW + 3600)
    assert (session.samples, session.device, session.left, session.last_seen) == (20, "H200", True, NOW)


def test_nobody_takes_the_credit_of_a_session_by_its_name(tmp_path: Path):
    """Sessions' names are public, and so are the ids under which they publish."""
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    thief = report(ASHA, user="mallory", peer_id="mallory")
    write(ledger, [thief])
    write(ledger, [report(ASHA), thief], update(1, ASHA))
    write(ledger, [thief], update(2, ASHA))
    assert samples(ledger) == {"asha": 20, "mallory": 0}


def test_only_updates_are_rounds():
    (genesis,) = chain_of(1)
    assert seen_round(Committed(genesis)) is None
    entry = replace(genesis, header=update(3, ASHA, BELA))
    seen = seen_round(Committed(entry, gradient_norm=2.0, seconds=1.5))
    assert seen is not None and (seen.step, seen.total, seen.gradient_norm, seen.seconds) == (2, 20, 2.0, 1.5)


LAYOUT = Layout(("a", "b"), ((2, 3), (4,)), (True, False))


def checkpoint(state: State) -> LoadedCheckpoint:
    tensors = dict(zip(LAYOUT.names, LAYOUT.views(state.parameters), strict=True))
    told = TrainerState("run", state.step, 0, None, "", "", "")
    return LoadedCheckpoint(tensors, saved(state), told)


def test_a_state_comes_back_from_its_checkpoint():
    vectors = [torch.rand(10) for _ in range(3)]
    state = State(step=7, updates=6, parameters=vectors[0], moments=(vectors[1], vectors[2]))
    found = state_of(checkpoint(state), LAYOUT)
    assert (found.step, found.updates) == (7, 6)
    for ours, theirs in zip((state.parameters, *state.moments), (found.parameters, *found.moments), strict=True):
        assert torch.equal(ours, theirs)


def test_a_checkpoint_of_another_model_or_optimizer_is_refused_in_one_line():
    state = State(step=7, updates=6, parameters=torch.rand(10), moments=(torch.rand(10), torch.rand(10)))
    other = Layout(("a", "b"), ((3, 2), (4,)), (True, False))
    with pytest.raises(CheckpointError, match="checkpoint-7 does not fit the run"):
        state_of(checkpoint(state), other)
    old = replace(checkpoint(state), optimizer_state={"version": 2, "state": {}})
    with pytest.raises(CheckpointError, match="checkpoint-7 does not fit the run"):
        state_of(old, LAYOUT)


def test_only_a_log_that_ends_before_the_release_is_set_aside(tmp_path: Path):
    state = State(step=2, updates=2, parameters=torch.rand(10), moments=(torch.rand(10), torch.rand(10)))
    folder = tmp_path / "log"
    assert set_older_log_aside(folder, checkpoint(state)) is None  # there is none
    folder.mkdir()
    LogFile(folder / LOG_FILE).append(chain_of(2))
    newer = set_older_log_aside(folder, checkpoint(state))
    assert newer is not None and newer.parent == tmp_path and not folder.exists()
    folder.mkdir()
    LogFile(folder / LOG_FILE).append(chain_of(3))
    assert set_older_log_aside(folder, checkpoint(state)) is None and folder.exists()
