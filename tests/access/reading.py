"""What the swarm tells: to those with a pass in the DHT, read with raw calls, and to everybody over HTTP."""

import httpx
from hivemind.dht.storage import DictionaryDHTValue
from hivemind.dht.validation import DHTRecord
from hivemind.utils import MSGPackSerializer

from swarm.guarded_dht import GuardedProtocol
from tests.access.credentials import Scene, key_of
from tests.access.intruder import Intruder


async def records_of(intruder: Intruder, protocol: GuardedProtocol, name: str) -> list[DHTRecord]:
    """The swarm's records under a key, as they travel."""
    for peer in intruder.targets:
        for result in await intruder.found(protocol, peer, (name,)):
            if result.value:
                entries = MSGPackSerializer.loads(result.value)
                assert isinstance(entries, DictionaryDHTValue)
                return [
                    DHTRecord(key_of(intruder.scene, name), MSGPackSerializer.dumps(subkey), value, expiration)
                    for subkey, (value, expiration) in entries.data.items()
                ]
    return []


async def told_step(scene: Scene) -> int:
    """The global step that the coordinator tells everybody."""
    async with httpx.AsyncClient(timeout=10.0) as client:
        return int((await client.get(f"{scene.url}/healthz")).json()["step"])
