"""The training loop of a volunteer, from top to bottom."""

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hivemind.dht import DHT

from swarm.dht import Network, join_dht
from swarm.dht_watch import DHTWatch
from swarm.gate import Gate
from swarm.identity import Identity, load_identity
from swarm.run_file import RunFile
from tokenizer.documents import open_documents
from tokenizer.loading import load_tokenizer
from trainer.averaging import make_optimizer
from trainer.averaging.lines.caps import Caps
from trainer.console import ConsoleView
from trainer.data import Feed
from trainer.leaving import GRACE, end_helpers, end_process, leaving_on_signal
from trainer.micro_batch import find_pace
from trainer.model import build_model, parameter_groups
from trainer.organizer import Organizer
from trainer.precision import device_name, pick_device, use_fast_arithmetic
from trainer.session import Session
from trainer.steps import Steps
from trainer.work import Work


@dataclass(frozen=True)
class TrainerOptions:
    """What a volunteer may choose; everything else is in the run file."""

    name: str
    state_folder: Path  # holds the identity
    network: Network
    device: str | None = None  # as torch names it; found if absent
    micro_batch: int | None = None  # samples in a forward pass; found if absent
    grace: float = GRACE  # seconds after SIGTERM in which the global step may be finished
    compile: bool = False  # torch.compile: slower to start, faster on long runs
    country: str | None = None  # ISO 3166, where the person wants it counted
    max_upload: float | None = None  # Mbit/s that averaging may take
    max_download: float | None = None  # Mbit/s
    identity: Identity | None = None  # loaded already; from the state folder if absent
    gate: Gate | None = None  # in a run that gives passes
    when_joined: tuple[Callable[[DHT], None], ...] = ()  # called once helper processes are there and threads may start
    steps: Steps = field(default_factory=Steps)  # of the way to the first sample


def train(run: RunFile, options: TrainerOptions, view: ConsoleView, process_started: float) -> None:
    """Train until the run's last global step, or until Ctrl-C or SIGTERM.

    If the DHT ends or is silent for too long, that is said, and the process ends with the status of `SwarmError`.

    Args:
        process_started: unix time in seconds, for the figure that says how long a volunteer waits.

    Raises:
        SahajError: no usable text, a tokenizer that does not fit, a swarm that cannot be joined.
    """
    if run.averaging.log:
        from trainer.train import train as train_by_log

        train_by_log(run, options, view, process_started)
        return
    steps = options.steps
    tokenizer = load_tokenizer(run)
    identity = options.identity or load_identity(options.state_folder / "identity.key")
    # every peer reads the same text in an order of its own
    seed = zlib.crc32(identity.peer_id.to_bytes() + str(process_started).encode())
    documents = open_documents(run, run.data.train, seed=seed, repeat=True)
    with steps("building the model"):
        device = pick_device(options.device)
        use_fast_arithmetic(device)
        model = build_model(run, tokenizer)
        model.to(device)  # type: ignore[arg-type]  # Transformers' wrapper hides torch's signature

    # hivemind forks its processes: that has to come before threads of ours are running
    with steps("joining the swarm"):
        dht = join_dht(run.name, identity, options.network, options.gate)
    try:
        with steps("starting to average"):
            optimizer = make_optimizer(
                run,
                dht,
                identity,
                parameter_groups(model, run.optimizer.weight_decay),
                gate=options.gate,
                caps=Caps.of(options.max_upload, options.max_download),
            )
        session = Session(
            run.name,
            identity,
            dht,
            name=options.name,
            device=device_name(device),
            country=options.country,
            gate=options.gate,
        )
        for begin in options.when_joined:
            begin(dht)
        with (
            Feed(documents, tokenizer, run, batch_size=options.micro_batch or 4, seed=seed) as feed,
            leaving_on_signal(lambda: view.farewell(session.contributions.thanks()), grace=options.grace) as asked,
        ):
            watch = DHTWatch(dht, view.message, asked.fail)
            with steps("asking the swarm for its state"):
                if optimizer.load_state_from_peers():
                    view.message(f"Took over the state of global step {optimizer.local_epoch} from the swarm.")
            with steps("trying how many samples fit"):
                pace = find_pace(model, feed, device, options.micro_batch)
            view.message(pace.describe())
            work = Work(run, options.name, model, optimizer, session, feed, pace, compile=options.compile)
            organizer = Organizer(options.gate, identity)
            counted = False
            while not work.is_done() and not organizer.ending():
                if asked.is_set() and not work.can_finish_step(asked.left()):
                    break
                if optimizer.trains:
                    work.compute(feed.next())
                else:
                    work.assist()
                for message in [*organizer.news(), *work.settle()]:
                    view.message(message)
                if work.batches == 1 and not counted:
                    counted = True
                    view.message(f"First sample counted {time.time() - process_started:.1f} s after the start.")
                work.publish()
                view.update(work.view())
            if reason := organizer.ending():
                view.message(reason)
            watch.stop()
            if not asked.status:
                work.leave()
                optimizer.shutdown()
                dht.shutdown()
            view.farewell(session.contributions.thanks())
            if asked.status:  # threads of hivemind may wait for the DHT that is gone
                end_process(asked.status)
    finally:
        end_helpers()
