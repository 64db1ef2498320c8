"""What a coordinator opens the run with."""

import gc
import weakref
from pathlib import Path

import torch

from averaging.log.state import Layout, State
from averaging.optimizer import CollaborativeOptimizer
from averaging.optimizers.state_step import initial_state
from averaging.shell.connection import Membership
from swarm.access.passes import load_authority
from swarm.access.user_names import COORDINATOR
from swarm.dht.node import Network, join_dht
from swarm.identity import load_identity
from tests.averaging.swarm.peer import RUN
from tests.support.passes import own_gate


def test_the_checkpoint_that_a_run_is_opened_with_does_not_stay_in_memory(tmp_path: Path) -> None:
    identity, authority = load_identity(tmp_path / "identity.key"), load_authority(tmp_path / "authority.key")
    gate = own_gate(tmp_path, RUN.name, authority, identity, COORDINATOR)
    dht = join_dht(RUN.name, identity, Network(listen=("/ip4/127.0.0.1/tcp/0",)), gate)
    membership = Membership(RUN, "print", dht, identity, gate, authority=authority, folder=tmp_path / "log")
    loaded = torch.ones(4, 4)
    checkpoint = weakref.ref(loaded)

    def first(layout: Layout, loaded: torch.Tensor = loaded) -> State:
        return initial_state(layout, [loaded])

    optimizer = CollaborativeOptimizer(membership, [("weight", torch.nn.Parameter(torch.zeros(4, 4)))], first=first)
    try:
        del first, loaded
        gc.collect()
        assert optimizer.state is not None and optimizer.state.parameters.sum() == 16.0
        assert checkpoint() is None
    finally:
        optimizer.shutdown()
        dht.shutdown()
