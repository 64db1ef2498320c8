"""Where newcomers ring: the HTTP service and the signs of life of a run that gives passes."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hivemind.dht import DHT
from transformers import PreTrainedTokenizerFast

from coordinator.access.admin_key import FILE, load_admin_key
from coordinator.access.authority import Guard, keep_telling
from coordinator.access.pass_clock import keep_pass_time
from coordinator.access.renewals import open_renewals
from coordinator.http.app import Desk, make_app
from coordinator.http.desk import Remembered
from coordinator.http.server import Server
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.peer_records import other_ways_in
from coordinator.state_folder import CHECKPOINTS, URL
from swarm.dht.multiaddrs import is_loopback
from swarm.dht.node import addresses
from swarm.files import write_file
from swarm.identity import Identity
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import Fingerprint

WAYS_REMEMBERED = 5.0  # seconds


@dataclass(frozen=True)
class Reception:
    """What the HTTP service shows and gives out."""

    run: RunFile
    fingerprint: Fingerprint
    tokenizer: PreTrainedTokenizerFast
    ledger: Ledger
    step: Callable[[], int]
    gathered: Callable[[], int]  # samples of all peers towards the next global step
    stepped_at: Callable[[], float]
    restore: Callable[[int], None]  # takes the order to go back to a checkpoint
    trouble: Callable[[], str]  # what keeps the coordinator from working, empty if nothing does
    folder: Path  # of the coordinator's state
    notebook_at_hub: Callable[[], str] = str  # empty while no release has it


@contextlib.contextmanager
def open_reception(reception: Reception, guard: Guard, dht: DHT, identity: Identity) -> Iterator[str]:
    """Serve HTTP, renew passes and tell the notices while the block runs; gives the URL to join by.

    Raises:
        SahajError: the port is taken, or a file of the state folder cannot be used.
    """
    access, folder = reception.run.access, reception.folder
    assert access is not None, "there is a guard only where the run gives passes"
    desk = Desk(
        run=reception.run,
        fingerprint=reception.fingerprint,
        tokenizer=_tokenizer_folder(reception),
        authority=guard.authority,
        board=guard.board,
        ledger=reception.ledger,
        addresses=Remembered(lambda: _ways_in(dht, reception.run.name, guard), WAYS_REMEMBERED),
        step=reception.step,
        gathered=reception.gathered,
        stepped_at=reception.stepped_at,
        restore=reception.restore,
        trouble=reception.trouble,
        checkpoints=folder / CHECKPOINTS,
        admin_key=load_admin_key(folder / FILE),
        notebook_at_hub=reception.notebook_at_hub,
    )
    server = Server(make_app(desk), access.host, access.port)
    closing = threading.Event()
    threads = [
        threading.Thread(target=keep_pass_time, args=(server.url, guard.board, closing), name="pass-time"),
        threading.Thread(target=keep_telling, args=(guard, dht, identity, closing), name="notices-out"),
    ]
    for thread in threads:
        thread.start()
    try:
        url = guard.board.url = access.url or server.url
        write_file(folder / URL, url + "\n")
        with open_renewals(desk, dht):
            yield url
    finally:
        closing.set()
        server.stop()
        for thread in threads:
            thread.join()


def _ways_in(dht: DHT, run_name: str, guard: Guard) -> list[str]:
    own = addresses(dht)
    return [*own, *other_ways_in(dht, run_name, guard.gate, loopback=all(map(is_loopback, own)))]


def _tokenizer_folder(reception: Reception) -> Path:
    """The run's own folder, or a copy of what came from the Hub."""
    local = reception.run.resolve(reception.run.tokenizer.path)
    if local.is_dir():
        return local
    copy = reception.folder / "tokenizer"
    reception.tokenizer.save_pretrained(copy)
    return copy
