"""What the swarm tells those with a pass in the DHT, read with raw calls."""

from hivemind.dht.storage import DictionaryDHTValue
from hivemind.dht.validation import DHTRecord
from hivemind.utils import MSGPackSerializer

from swarm.dht.guarded import GuardedProtocol
from tests.access.attackers.credentials import key_of
from tests.access.attackers.intruder import Intruder


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
