"""hivemind's DHT time is the clock of the swarm.

Upstream takes the machine's clock, which may be set while a peer runs: see `swarm.clock`.
"""

import sys

from hivemind.utils import timed_storage

from swarm import clock


def use_swarm_clock() -> None:
    """For this process and those that will be forked from it."""
    upstream = timed_storage.get_dht_time
    for name, module in list(sys.modules.items()):  # it is imported by name wherever it is used
        if name.partition(".")[0] == "hivemind" and getattr(module, "get_dht_time", None) is upstream:
            module.get_dht_time = clock.now  # type: ignore[attr-defined]
