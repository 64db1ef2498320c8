"""The HTTP service of a run, with what runs beside it: renewals, notices, and the time of passes."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hivemind.dht import DHT
from hivemind.p2p import PeerID
from transformers import PreTrainedTokenizerFast

from coordinator.access.admin_key import load_admin_key
from coordinator.access.decisions import AccessControl, keep_publishing
from coordinator.access.renewals import keep_pass_time, open_renewals
from coordinator.cached import Cached
from coordinator.http.app import make_app
from coordinator.http.server import Server
from coordinator.https.service import serve_https
from coordinator.ledger.recorder import admitted, reachable
from coordinator.run_context import RunContext, RunStatus, ServiceContext
from coordinator.state_folder import ADMIN_KEY, URL
from experts.directory.records import Listed
from swarm.dht.multiaddrs import is_loopback
from swarm.dht.node import addresses
from swarm.dht.records import SessionRecord
from swarm.files import write_file
from swarm.identity import Identity

ADDRESSES_KEPT = 5.0  # seconds before they are looked for again


@contextlib.contextmanager
def serve(
    context: RunContext,
    tokenizer: PreTrainedTokenizerFast,
    access: AccessControl,
    dht: DHT,
    identity: Identity,
    *,
    status: Callable[[], RunStatus],
    order_rollback: Callable[[int], None],
    hosts: Callable[[], list[Listed]],
    sessions: Callable[[], list[tuple[PeerID, SessionRecord]]],
    fail: Callable[[], None],
) -> Iterator[str]:
    """Serve HTTP, renew passes and publish notices while the block runs; gives the URL to join by.

    Args:
        sessions: their records in the DHT.
        fail: has the coordinator end with an error, once the HTTP service has ended, which was reported.

    Raises:
        SahajError: the port is taken, or a file of the state folder cannot be used.
    """
    settings = context.run.access
    service = ServiceContext(
        **vars(context),
        tokenizer_folder=_tokenizer_folder(context, tokenizer),
        authority=access.authority,
        notices=access.notices,
        admin_key=load_admin_key(context.folder / ADMIN_KEY),
        status=status,
        addresses=Cached(lambda: _addresses(dht, sessions(), access), ADDRESSES_KEPT),
        order_rollback=order_rollback,
        hosts=hosts,
    )

    def ended(problem: str) -> None:
        context.say(f"problem: {problem}; the program is stopping, so start it again")
        fail()

    app = make_app(service)
    server = Server(app, settings.host, settings.port, ended=ended)
    closing = threading.Event()
    threads = [
        threading.Thread(target=keep_pass_time, args=(server.url, access.notices, closing), name="pass-time"),
        threading.Thread(target=keep_publishing, args=(access, dht, identity, closing), name="notices-out"),
    ]
    for thread in threads:
        thread.start()
    try:
        url = access.notices.url = settings.url or server.url
        write_file(context.folder / URL, url + "\n")
        with serve_https(app, context.run, context.folder, context.say, ended), open_renewals(service, dht):
            yield url
    finally:
        closing.set()
        server.stop()
        for thread in threads:
            thread.join()


def _addresses(dht: DHT, sessions: Iterable[tuple[PeerID, SessionRecord]], access: AccessControl) -> list[str]:
    """Of the coordinator, and of some other peers, so that newcomers do not depend on the coordinator alone."""
    own, others = addresses(dht), admitted(sessions, access.gate)
    return [*own, *reachable(others, loopback=all(map(is_loopback, own)))]


def _tokenizer_folder(context: RunContext, tokenizer: PreTrainedTokenizerFast) -> Path:
    """The run's own folder, or a copy of what came from the Hub."""
    local = context.run.resolve(context.run.tokenizer.path)
    if local.is_dir():
        return local
    copy = context.folder / "tokenizer"
    tokenizer.save_pretrained(copy)
    return copy
