"""The coordinator from start to end: the first peer of a run, on which nobody has to wait."""

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from hivemind.dht import DHT
from transformers import PreTrainedTokenizerFast

from averaging.log.disk import LOG_FILE
from averaging.log.log_file import newest_step
from coordinator.access.authority import AccessControl, open_access_control
from coordinator.access.service import serve
from coordinator.checkpoints.rollback import Recall, Reins
from coordinator.checkpoints.store import CheckpointError, LoadedCheckpoint, list_checkpoints, load_newest_checkpoint
from coordinator.context import RunContext, RunStatus
from coordinator.evaluation.held_out import bfloat16_is_faster
from coordinator.evaluation.probes import read_probes
from coordinator.evaluation.unigram_count import UnigramBaseline
from coordinator.initialization.initialize import initialize
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.minutes import MinuteRecorder
from coordinator.ledger.recorder import Recorder
from coordinator.main_loop import Bookkeeper, Office
from coordinator.notebook.build import invitation
from coordinator.release.restore import restore_from_hub
from coordinator.release.uploader import ReleaseOffice, Releaser
from coordinator.replica import RunLog, set_older_log_aside
from coordinator.state_folder import CHECKPOINTS, LEDGER, LOG
from coordinator.tracking import open_tracker
from corpus.documents import open_documents
from swarm.dht import known_peers
from swarm.dht.node import Network, addresses, is_loopback, join_dht
from swarm.dht.watch import DHTWatch
from swarm.files import write_file
from swarm.hosts import is_this_machine
from swarm.identity import Identity, load_identity
from swarm.leaving import end_helpers, end_process, leaving_on_signal
from swarm.logging import logs
from swarm.private_folder import keep_private
from swarm.run_file import RunFile, load_run
from swarm.run_file.fingerprint import Fingerprint, differences, fingerprint
from tokenizer.loading import load_tokenizer, read_tokenizer, tokenizer_digest
from trainer.data import Batch, validation_batches
from trainer.model import PretrainingModel, build_model

EVALUATION_BATCH = 16  # samples at a time: little memory, and the processor is busy with it
PATIENCE = 60.0  # seconds from Ctrl-C to the end; a large checkpoint takes a while to save
PEERS = "peers.json"  # in the state folder: some that were there when it was written
IDENTITY = "identity.key"  # in the state folder, since the run was first opened from it
ADDRESSES = "addresses.txt"  # in the state folder: where this coordinator can be joined


@dataclass(frozen=True)
class CoordinatorOptions:
    """What the organizer may choose when starting; everything else is in the run file."""

    state_folder: Path  # identity, ledger, checkpoints
    run_file: Path  # as the organizer named it
    initial_peers: tuple[str, ...] = ()  # other known peers; trainers find a restarted coordinator by themselves
    listen: tuple[str, ...] = ()  # instead of the run file's addresses
    announce: tuple[str, ...] = ()
    resume: bool = False  # go on, and do not begin anew where there is nothing to go on from
    from_hub: bool = False  # go on from the newest release, if it is newer than what is in the state folder


def coordinate(run: RunFile, options: CoordinatorOptions, say: Callable[[str], None]) -> None:
    """Lead the run until Ctrl-C or SIGTERM. Started again, it goes on from where the swarm is.

    If the DHT ends or is silent for too long, that is said, and the process ends with the status of `SwarmError`.

    Raises:
        SahajError: no usable tokenizer, probes or held-out text, a used port, a ledger or checkpoint that does not fit,
            or nothing to go on from where that was asked for.
    """
    folder = options.state_folder
    if problem := keep_private(folder):
        say(problem)
    tokenizer = load_tokenizer(run)
    ours = fingerprint(run, tokenizer_digest(tokenizer))
    held_out = held_out_batches(run, tokenizer)
    probes = read_probes(run, tokenizer)
    restore_from_hub(run, folder, ours, say, asked=options.from_hub)
    newest = newest_that_fits(folder / CHECKPOINTS, ours)
    if options.resume and newest is None and not any((folder / name).exists() for name in (IDENTITY, LEDGER)):
        raise CheckpointError(
            f"--resume: {folder} has nothing to go on from; name the run's folder with --state FOLDER, "
            "or leave out --resume to begin"
        )
    model = build_model(run, tokenizer)
    if is_new(run, folder, newest):
        initialize(model, run, tokenizer, say)
    ledger = open_ledger(run.coordinator.ledger, folder)
    identity = load_identity(folder / IDENTITY)  # whoever has it has the folder, and its logs, to itself
    if problem := logs.write_to(folder / logs.FOLDER, "coordinator"):
        say(problem)
    network = Network(
        initial_peers=options.initial_peers,
        maybe_there=known_peers.recall(folder / PEERS),  # they go on elsewhere, should this machine be a new one
        listen=options.listen or tuple(run.coordinator.listen),
        announce=options.announce or tuple(run.coordinator.announce),
    )
    access = open_access_control(run.name, folder, identity, run.access.pass_lifetime) if run.access else None
    gate = access.gate if access else None
    context = RunContext(run, ours, folder, ledger, say)
    # hivemind forks its processes: that has to come before threads of ours are running
    dht = join_dht(run.name, identity, network, gate)
    try:
        log = open_log(run, options, ours, dht, identity, model, newest, access, say)
        evaluations = ledger.evaluations()
        with (
            leaving_on_signal(
                lambda: say("The coordinator had to stop before everything was saved; the newest checkpoint is whole."),
                patience=PATIENCE,
            ) as asked_to_leave,
            contextlib.ExitStack() as open_doors,
        ):
            watch = DHTWatch(dht, say, asked_to_leave.fail)
            reachable = addresses(dht)
            orders: queue.SimpleQueue[int] = queue.SimpleQueue()
            way_in = join_command(options.run_file, reachable)
            warnings: list[str] = []
            releaser = releaser_of(run, folder, ours, ledger, say)
            if access:
                service = serve(
                    context,
                    tokenizer,
                    access,
                    dht,
                    identity,
                    status=lambda: RunStatus(
                        log.step,
                        log.samples_gathered,
                        log.stepped_at,
                        watch.trouble,
                        releaser.notebook() if releaser else "",
                    ),
                    order_rollback=orders.put,
                )
                url = open_doors.enter_context(service)
                way_in, warnings = f"sahaj join {url}", warnings_about(run, url)
            write_file(folder / ADDRESSES, "\n".join(reachable) + "\n")
            say(f"Run {run.name} is open at global step {log.step} of {run.optimizer.total_steps}. To join:")
            say(f"  {way_in}")
            for warning in warnings:
                say(warning)
            historian = MinuteRecorder(ledger)
            if releaser:
                releaser.start()
            baseline = UnigramBaseline(run, tokenizer, held_out, say, asked_to_leave)
            office = Office(
                run=run,
                fingerprint=ours.digest,
                folder=folder / CHECKPOINTS,
                tokenizer=tokenizer,
                model=build_model(run, tokenizer),
                held_out=held_out,
                baseline=baseline,
                ledger=ledger,
                tracker=open_tracker(run, folder),
                say=say,
                autocast=bool(held_out) and bfloat16_is_faster(model, held_out[0]),
                historian=historian,
                probes=probes,
                releaser=releaser,
            )
            bookkeeper = Bookkeeper(
                office,
                log,
                Recorder(run, dht, ledger, log, historian, gate, say, peers=folder / PEERS),
                Recall(Reins(log, orders, ledger, office.folder, say)),
                evaluated=max((one.step for one in evaluations), default=-1),
                saved=min(newest.trainer_state.step, log.step) if newest else -1,
            )
            books = threading.Thread(target=bookkeeper.work, args=(asked_to_leave,), name="bookkeeping")
            books.start()
            baseline.start()  # only now, or it would slow down the measuring of bfloat16
            try:
                log.follow(asked_to_leave)
            finally:
                asked_to_leave.set()
                books.join()
                baseline.finish()
            office.tracker.finish(timeout=1.0)
            if releaser:
                releaser.finish()
            if not asked_to_leave.status:
                watch.stop()
                dht.shutdown()
        say(f"The coordinator has stopped at global step {log.step}. Start it again to go on.")
    finally:
        ledger.close()
        end_helpers()
    if asked_to_leave.status:  # threads of hivemind may wait for the DHT that is gone
        end_process(asked_to_leave.status)


def open_log(
    run: RunFile,
    options: CoordinatorOptions,
    ours: Fingerprint,
    dht: DHT,
    identity: Identity,
    model: PretrainingModel,
    newest: LoadedCheckpoint | None,
    access: AccessControl | None,
    say: Callable[[str], None],
) -> RunLog:
    """The coordinator's own peer, in the state from which the run goes on."""
    folder = options.state_folder / LOG
    aside = set_older_log_aside(folder, newest) if options.from_hub and newest else None
    if aside is not None:
        say(f"The log on the disk is older than the release and lies in {aside} now.")
    gate, authority = (access.gate, access.authority) if access else (None, None)
    return RunLog(run, ours, dht, identity, model, newest, gate, authority, folder)


def is_new(run: RunFile, folder: Path, newest: LoadedCheckpoint | None) -> bool:
    """Whether the run begins now: there is no checkpoint, nor a log to go on from, which small groups do not have.

    Raises:
        StorageError: the log cannot be read.
    """
    if newest is not None:
        return False
    return run.averaging.target_group_size is not None or newest_step(folder / LOG / LOG_FILE) is None


def held_out_batches(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> list[Batch]:
    """The batches of the held-out evaluation; none if the run file names no held-out text."""
    if not run.data.validation:
        return []
    documents = open_documents(run, run.data.validation, seed=0, repeat=False, shuffle=False)
    return validation_batches(run, documents, tokenizer, EVALUATION_BATCH)


def releaser_of(
    run: RunFile, folder: Path, ours: Fingerprint, ledger: Ledger, say: Callable[[str], None]
) -> Releaser | None:
    """What takes checkpoints to the Hub, if the run file asks for it; it has been told of those that are there."""
    if run.release is None:
        return None
    also = partial(invitation, run.name, run.access.url if run.access else None)
    releaser = Releaser(ReleaseOffice(run, run.release, ours.digest, folder, ledger, say, also))
    releaser.offer(list_checkpoints(folder / CHECKPOINTS))
    return releaser


def newest_that_fits(folder: Path, ours: Fingerprint) -> LoadedCheckpoint | None:
    """The newest whole checkpoint, if there is one.

    Raises:
        CheckpointError: it belongs to a run with another model, tokenizer, optimizer or averaging.
    """
    newest = load_newest_checkpoint(folder)
    if newest is not None and newest.trainer_state.fingerprint != ours.digest:
        path = folder / f"checkpoint-{newest.trainer_state.step}"
        theirs = fingerprint(
            load_run(path / "run.yaml"),
            tokenizer_digest(read_tokenizer(str(path))),
            newest.optimizer_state.get("version", 1),  # the first one did not say which it was
        )
        raise CheckpointError(
            f"{path}: belongs to a run with other settings ({'; '.join(differences(ours, theirs)) or 'unknown'}); "
            "choose another state folder with --state FOLDER, or undo the change"
        )
    return newest


def warnings_about(run: RunFile, url: str) -> list[str]:
    """What would keep others from joining by the link, where the run is not for this machine alone."""
    assert run.access is not None, "there is a link only where the run gives passes"
    local = is_this_machine(urlsplit(url).hostname or "")
    if local and is_this_machine(run.access.host):
        return []
    found = []
    if local:
        found.append(
            "This link works on this machine only; set access.url in the run file to the address that others use."
        )
    paths = [source.path for source in run.data.train if source.path is not None]
    if paths:
        found.append(
            f"The text in {', '.join(paths)} is on this machine only; put it into a dataset on the Hub, "
            "or others have to join with --data and text of their own."
        )
    return found


def join_command(run_file: Path, reachable: list[str]) -> str:
    """What others type to join; loopback addresses are left out where there are others."""
    public = [one for one in reachable if not is_loopback(one)]
    peers = " ".join(f"--initial-peers {address}" for address in public or reachable)
    return f"sahaj train {run_file.name} {peers}"
