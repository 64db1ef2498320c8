import time

import pytest
from hivemind.dht import node, protocol
from hivemind.utils import timed_storage

from swarm import clock
from swarm.hivemind_patches.dht_time import use_swarm_clock


def test_hivemind_takes_the_time_from_the_clock_of_the_swarm(monkeypatch: pytest.MonkeyPatch):
    for module in (timed_storage, node, protocol):
        monkeypatch.setattr(module, "get_dht_time", time.time)
    use_swarm_clock()
    assert timed_storage.get_dht_time is node.get_dht_time is protocol.get_dht_time is clock.now
