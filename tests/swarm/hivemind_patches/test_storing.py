import asyncio
from collections.abc import Collection
from typing import Any

import pytest
from hivemind.dht import DHTID, DHTNode
from hivemind.dht.protocol import DHTProtocol
from hivemind.p2p import PeerID

from swarm import clock
from swarm.hivemind_patches.storing import search_beside_keys
from tests.support.waiting import PATIENCE


def test_a_node_that_stores_a_record_is_not_sent_those_beside_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(DHTNode, "find_nearest_nodes", DHTNode.find_nearest_nodes)  # put back afterwards
    search_beside_keys()
    call_find, sent = DHTProtocol.call_find, list[Any]()

    async def find(self: DHTProtocol, peer: PeerID, keys: Collection[DHTID]) -> Any:
        answers = await call_find(self, peer, keys)
        sent.extend(found and [subkey for subkey, _ in found.value.items()] for found, _ in (answers or {}).values())
        return answers

    async def course() -> None:
        expires = clock.now() + PATIENCE
        nodes = [await DHTNode.create()]
        try:
            nodes.append(await DHTNode.create(initial_peers=await nodes[0].get_visible_maddrs()))
            monkeypatch.setattr(DHTProtocol, "call_find", find)
            for number, node in enumerate(nodes):
                assert await node.store("list", f"record {number}", expires, subkey=number)
            assert len(sent) == len(nodes) and not any(sent)
            for node in nodes:
                found = await node.get("list", latest=True)
                assert {subkey: one.value for subkey, one in found.value.items()} == {0: "record 0", 1: "record 1"}
            assert any(sent)
        finally:
            for node in nodes:
                await node.shutdown()

    asyncio.run(asyncio.wait_for(course(), PATIENCE))
