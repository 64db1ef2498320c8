"""A volunteer's part in a run: join the swarm, train until the end, leave."""

import queue
import time
import zlib
from functools import partial

import torch

from averaging.bandwidth import Caps
from averaging.log.header import Entry
from averaging.optimizer import CollaborativeOptimizer
from averaging.shell.connection import Membership
from corpus.documents import open_documents
from swarm.dht.liveness import DHTWatch
from swarm.dht.node import join_dht
from swarm.errors import DataError, is_memory_full
from swarm.language import _
from swarm.leaving import Asked, end_helpers, end_process, leaving_on_signal
from swarm.run_file import RunFile
from trainer.console.moments import Milestones
from trainer.console.view import ConsoleView
from trainer.credit_tracker import CreditTracker
from trainer.data import BatchPrefetcher
from trainer.experts import open_experts, summary
from trainer.micro_batch import FIRST, find_pace, memory_full
from trainer.model import build_model
from trainer.options import TrainerOptions
from trainer.organizer_notices import OrganizerNotices
from trainer.pausing.driver import Read, driver_of
from trainer.pausing.watch import PauseWatch
from trainer.pausing.wishes import Wishes
from trainer.precision import DeviceError, device_name, gpu_uuid, pick_device, use_fast_arithmetic
from trainer.session_publisher import SessionPublisher
from trainer.training_loop import TrainingLoop
from trainer.training_step import TrainingStep

QUICK = 0.25  # seconds of a batch that need not be given up to pause or leave: even four times as long it is soon over


def train(run: RunFile, options: TrainerOptions, view: ConsoleView, process_started: float) -> bool:
    """Train until the run's last global step, until Ctrl-C or SIGTERM, or until a pause for which this peer leaves.

    Returns whether it was such a pause.
    If the DHT ends or is silent for too long, that is said, and the process ends with the status of `SwarmError`.

    Args:
        process_started: unix time in seconds, for the message that says how long a volunteer waited.

    Raises:
        SahajError: no usable text, a tokenizer that does not fit, a swarm that cannot be joined.
    """
    timer, chosen, identity, gate = options.timer, options.chosen, options.identity, options.gate
    tokenizer, pauses = options.tokenizer, options.pauses
    if chosen.cores is not None:
        torch.set_num_threads(chosen.cores)
    # every peer reads the same text in an order of its own
    seed = zlib.crc32(identity.peer_id.to_bytes() + str(process_started).encode())
    documents = open_documents(run, run.data.train, seed=seed, repeat=True)
    with timer("building the model"):
        device = pick_device(chosen.device)
        use_fast_arithmetic(device)
        driver = _driver(device, pauses.wishes)
        model = build_model(run, tokenizer)
        try:
            model.to(device)  # type: ignore[arg-type]  # Transformers' wrapper hides torch's signature
        except RuntimeError as error:
            if not is_memory_full(error):
                raise
            raise memory_full(device) from None

    # hivemind forks its processes: that has to come before threads of ours are running
    with timer("joining the swarm"):
        dht = join_dht(run.name, identity, options.network, gate)
    try:
        committed: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        with timer("connecting to the others"):
            caps = Caps(chosen.max_upload, chosen.max_download)
            membership = Membership(run, options.fingerprint, dht, identity, gate, caps=caps)
            named = list(model.named_parameters())
            optimizer = CollaborativeOptimizer(membership, named, lambda entry, *_: committed.put(entry))
            experts = open_experts(run, options.fingerprint, dht, gate, trainers=lambda: optimizer.progress.peers)
        credit = CreditTracker(run.data.masked_fraction, enforces=run.access.robust == "enforce")
        session = SessionPublisher(
            run.name,
            identity,
            dht,
            device=device_name(device),
            gate=gate,
            credit=credit,
            served=dict if experts is None else experts.served,
            country=chosen.country,
        )
        options.when_joined(dht)
        pauses.start(lambda: optimizer.traffic, driver)
        grace = options.default_grace if chosen.grace is None else chosen.grace
        with (
            BatchPrefetcher(documents, tokenizer, run, batch_size=chosen.micro_batch or FIRST, seed=seed) as batches,
            leaving_on_signal(lambda: view.farewell(credit.thanks()), grace=grace) as asked,
        ):
            watch = DHTWatch(dht, view.message, asked.fail)
            with timer("trying how many samples fit"):
                pace = find_pace(model, batches, device, chosen.micro_batch, run.averaging.target_batch_size)
            view.message(pace.describe())
            caller = None if experts is None else experts.caller  # only now: trials are not for experts to learn from
            speed = pace.samples_per_second
            asks = partial(_gives_up, pauses, asked) if pace.micro_batch > QUICK * speed else None
            step = TrainingStep(model, optimizer, pace.precision, caller, compile=chosen.compile, interrupted=asks)
            loop = TrainingLoop(
                run, gate.own.user, step, optimizer, batches, speed, credit, committed, session, pauses, experts
            )
            organizer, milestones = OrganizerNotices(gate, identity), options.milestones
            try:
                pausing = _run_loop(loop, organizer, milestones, asked, view, process_started, pauses)
            except (DataError, DeviceError):  # of this machine: the others are told that it leaves
                loop.leave(pausing=False)
                raise
            watch.stop()
            if not asked.status:
                loop.leave(pausing=pausing)
                if experts is not None:
                    experts.close()
                dht.shutdown()
            if experts is not None and model.expert_term is not None:
                view.message(summary(experts.caller.counts, model.expert_term.mixture.counts))
            view.farewell(credit.thanks())
            if asked.status:  # threads of hivemind may wait for the DHT that is gone
                end_process(asked.status)
            return pausing and not asked.is_set()  # who has stopped it in the meantime does not want it to begin again
    finally:
        pauses.stop()
        end_helpers()


def _gives_up(pauses: PauseWatch, asked: Asked) -> bool:
    """Whether a batch that has begun is of no use any more: this peer pauses, or has no time left to finish a step."""
    return pauses.pause is not None or (asked.is_set() and not asked.left())


def _driver(device: torch.device, wishes: Wishes) -> Read | None:
    """What tells of the GPU, if there is a limit to hold."""
    if wishes.max_temperature is None and wishes.max_power is None:
        return None
    return driver_of(gpu_uuid(device), wishes, time.monotonic)


def _run_loop(
    loop: TrainingLoop,
    organizer: OrganizerNotices,
    milestones: Milestones,
    asked: Asked,
    view: ConsoleView,
    process_started: float,
    pauses: PauseWatch,
) -> bool:
    """Train until the run is done, the organizer ends it for this peer, or this peer is to leave.

    Returns whether it is to leave for a long pause.
    """
    has_counted = pausing = False
    while not loop.is_done() and not organizer.reason_to_leave():
        if asked.is_set() and not loop.can_finish_step(asked.left()):
            break
        patience = pauses.seconds_to_leave
        if patience is not None and not loop.can_finish_step(patience):
            pausing = True
            break
        outcome = loop.step(compute=not asked.is_set())
        shown = loop.view()
        for message in (*organizer.new_lines(), *outcome.messages, *milestones.new_lines(shown.own_samples)):
            view.message(message)
        if outcome.counted and not has_counted:
            has_counted = True
            view.message(
                _("First sample counted {n} s after the start.").format(n=f"{time.time() - process_started:.1f}")
            )
        view.update(shown)
    view.update(loop.view())
    if reason := organizer.reason_to_leave():
        view.message(reason)
    return pausing
