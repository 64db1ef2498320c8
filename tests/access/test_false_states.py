"""Peers with a pass that give out false states, and a newcomer, all with real averagers in a guarded run."""

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from hivemind.p2p import PeerID

from swarm.dht import addresses
from swarm.gate import Gate
from swarm.identity import load_identity
from swarm.notices import Notices, sign_notices
from swarm.passes import COORDINATOR, Authority, load_authority
from tests.averaging.state_averagers import RUN, SHAPES, begin_at, parameters_in, state_averager
from tests.forked import runs_well
from trainer.averaging.state import SwarmStateAverager
from trainer.leaving import end_process

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STEP = 7
AN_HOUR = 3600.0
PATIENCE = 60.0
OTHER = {"betas": (0.0, 0.1), "eps": 10.0}
USUAL = {"betas": (0.9, 0.99), "eps": 1e-6}


def test_a_newcomer_takes_over_no_false_state(tmp_path: Path):
    runs_well(join_among_liars, tmp_path)


def gate_of(folder: Path, authority: Authority, user: str, own: PeerID, coordinator: PeerID) -> Gate:
    folder.mkdir()
    notices = sign_notices(Notices(time=time.time(), coordinator=str(coordinator)), authority, RUN)
    return Gate(folder, RUN, authority.public_key, authority.issue(RUN, user, own, AN_HOUR), notices)


def filled(value: float) -> list[torch.Tensor]:
    return [torch.full(shape, value) for shape in SHAPES]


def load(newcomer: SwarmStateAverager, others: int, newest: int = STEP) -> bool:
    """Once so many others are known to give a state."""
    key = f"{RUN}_state_averager.all_averagers"
    deadline = time.monotonic() + PATIENCE
    while True:
        told = newcomer.dht.get(key, latest=True)
        own = newcomer.peer_id.to_bytes()
        if told and sum(one.value is not None for peer, one in told.value.items() if peer != own) == others:
            break
        assert time.monotonic() < deadline, told
        time.sleep(0.2)
    return newcomer.load_state_from_peers(
        newest=newest, disputed=newest > STEP, believes=lambda step: step <= newest, timeout=PATIENCE
    )


def join_among_liars(folder: Path) -> None:
    """The liar says that its state is newer than all, and its line fat; the coordinator and others leave one by one."""
    with contextlib.ExitStack() as there:
        known: list[str] = []
        authority, first = load_authority(folder / "authority.key"), load_identity(folder / "first.key")

        def start(user: str, step: int, value: float, **settings: Any) -> SwarmStateAverager:
            identity = first if user == COORDINATOR else load_identity(folder / f"{user}.key")
            gate = gate_of(folder / user, authority, user, identity.peer_id, first.peer_id)
            one = there.enter_context(state_averager(identity, known, gate, **settings))
            begin_at(one, step, filled(value))
            return one

        coordinator = start(COORDINATOR, STEP, 1.0, **USUAL)
        known += addresses(coordinator.dht)
        start("asha", STEP, 1.01, **USUAL)
        bela = start("bela", STEP, 0.99, **USUAL)
        liar = start("liar", STEP + 1, -100.0, **OTHER)
        liar.state_sharing_priority = 1e9
        newcomer = start("newcomer", 0, 0.5, **USUAL)
        newcomer.allow_state_sharing = False
        statistics = coordinator._held()[len(SHAPES) :]

        assert load(newcomer, others=4)
        assert newcomer.local_epoch == STEP
        for got, true in zip(newcomer._held(), coordinator._held(), strict=True):
            assert got.numel() == 1 or torch.equal(got, true)
        for own in newcomer.optimizer.state.values():
            assert float(own["step"]) == STEP

        for one in (newcomer, coordinator):
            assert not load(one, others=4 - (one is coordinator), newest=STEP + 1), "nobody but the liar is there"
            assert one.local_epoch == STEP

        newcomer.local_epoch = 0
        coordinator.allow_state_sharing = False
        assert load(newcomer, others=3)
        assert newcomer.local_epoch == STEP
        for got in parameters_in(newcomer):
            torch.testing.assert_close(got, torch.full_like(got, 0.99), msg="the middle one of three")
        for got, true in zip(newcomer._held()[len(SHAPES) :], statistics, strict=True):
            torch.testing.assert_close(got, true if true.numel() > 1 else torch.full_like(got, STEP))

        before = parameters_in(newcomer)
        bela.allow_state_sharing = False  # of the two who are left nobody can tell who lies, but the step is too new
        assert not load(newcomer, others=2)
        assert newcomer.local_epoch == STEP
        assert all(map(torch.equal, parameters_in(newcomer), before))
        for group in newcomer.optimizer.param_groups:
            assert {name: group[name] for name in USUAL} == USUAL, "settings of another peer's optimizer"
    end_process()
