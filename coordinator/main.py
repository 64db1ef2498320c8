"""The coordinator from start to end: the first peer of a run, which convenes it and keeps what it has reached."""

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from coordinator.access.decisions import AccessControl, open_access_control
from coordinator.access.service import serve
from coordinator.cached import Cached
from coordinator.checkpoints.checkpoint import Checkpoint, CheckpointError
from coordinator.checkpoints.rollback import Rollback
from coordinator.checkpoints.store import newest_that_fits
from coordinator.evaluation.evaluator import Evaluator
from coordinator.evaluation.held_out import read_held_out
from coordinator.evaluation.probes import read_probes
from coordinator.evaluation.unigram import UnigramBaseline
from coordinator.expert_states import open_expert_states
from coordinator.initialization.initialize import begin, is_new
from coordinator.join_script.script import one_line
from coordinator.ledger.ledger import open_ledger
from coordinator.ledger.recorder import Recorder
from coordinator.main_loop import CoordinatorLoop
from coordinator.notebook.build import invitation
from coordinator.release.restore import restore_from_hub
from coordinator.release.uploader import Releaser
from coordinator.replica import Replica, set_older_log_aside
from coordinator.run_context import RunContext, RunStatus
from coordinator.state_folder import ADDRESSES, CHECKPOINTS, IDENTITY, LEDGER, LOG, PEERS, SIGNS, TOLD
from coordinator.tracking.tracker import open_tracker
from coordinator.webhooks.news import News
from coordinator.webhooks.sender import Webhooks, read_webhooks
from swarm.dht import remembered_peers
from swarm.dht.liveness import DHTWatch
from swarm.dht.node import Network, addresses, join_dht
from swarm.dht.records import read_sessions
from swarm.errors import RunFileError, StorageError
from swarm.files import is_of_another_kind, keep_private, write_file
from swarm.hosts import is_this_machine
from swarm.identity import load_identity
from swarm.leaving import end_helpers, end_process, leaving_on_signal
from swarm.logging import logs
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import fingerprint
from tokenizer.loading import load_tokenizer, tokenizer_digest
from trainer.experts import open_experts
from trainer.model import build_model

READ_EVERY = 5.0  # seconds between two searches for the records of sessions, which publish theirs every 10 s
SHUTDOWN_TIMEOUT = 60.0  # seconds from Ctrl-C to the end; a large checkpoint takes a while to save


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

    If the DHT ends or is silent for too long, or the HTTP service ends, that is said, and the process ends with the
    status of `SwarmError`.

    Raises:
        SahajError: a run that admits nobody, no usable tokenizer, probes, held-out text or webhook, a used port, a
            ledger or checkpoint that does not fit, or nothing to go on from where that was asked for.
    """
    folder = options.state_folder
    if run.access.admits_nobody():
        raise RunFileError(f"{options.run_file}: access: nobody could join: set open, users or organizations")
    _keep_private(folder, say)

    # What the run file names has to be there and to fit, before anything is begun.
    tokenizer = load_tokenizer(run)
    ours = fingerprint(run, tokenizer_digest(tokenizer))
    held_out = read_held_out(run, tokenizer)
    probes = read_probes(run, tokenizer)
    hooks = read_webhooks()

    # Where the run goes on: from the newest checkpoint, here or at the Hub, or from a new model.
    restore_from_hub(run, folder, ours, say, asked=options.from_hub)
    newest = newest_that_fits(folder / CHECKPOINTS, ours)
    begins = is_new(run, folder, newest)
    check_resume(run, options, begins=begins)
    model = build_model(run, tokenizer)
    if begins:
        begin(model, run, tokenizer, folder, say)

    # Who this peer is, and what all parts of the coordinator share. The identity's lock keeps a second coordinator out,
    # which might upgrade the ledger of the first or put a copy in its place.
    identity = load_identity(folder / IDENTITY)
    context = RunContext(run, ours, folder, open_ledger(run.coordinator.ledger, folder), say)
    if problem := logs.write_to(folder / logs.FOLDER, "coordinator"):
        say(problem)
    access = open_access_control(run.name, folder, identity, run.access.pass_lifetime)

    # The swarm. hivemind forks its processes: that has to come before threads of ours are running.
    dht = join_dht(run.name, identity, network(run, options), access.gate)
    try:
        if options.from_hub and newest and (aside := set_older_log_aside(folder / LOG, newest)):
            say(f"The log on the disk is older than the release and was moved to {aside}.")
        replica = Replica(context, dht, identity, model, newest, access)
        saved = newest.trainer_state.step if newest else -1
        del newest  # its tensors are large
        with (
            leaving_on_signal(
                lambda: say("The coordinator had to stop before everything was saved; the newest checkpoint is whole."),
                patience=SHUTDOWN_TIMEOUT,
            ) as asked_to_leave,
            contextlib.ExitStack() as services,
        ):
            watch = DHTWatch(dht, say, asked_to_leave.fail)
            webhooks = Webhooks(hooks, say)
            rollback_orders: queue.SimpleQueue[int] = queue.SimpleQueue()
            experts = open_expert_states(context, dht, identity, access.gate, lambda: replica.optimizer.step)
            go_back = experts.roll_back if experts else lambda checkpoint: None
            rollback = Rollback(context, replica, rollback_orders, go_back)
            news = open_news(run, webhooks, replica.step, rollback, access)
            waiting = experts.pending if experts else frozenset()
            whole = [one for one in rollback.checkpoints() if one.path not in waiting]
            releaser = open_releaser(context, news, whole)

            # How others join: by the link of the HTTP service.
            sessions = Cached(lambda: read_sessions(dht, run.name), READ_EVERY)
            service = serve(
                context,
                tokenizer,
                access,
                dht,
                identity,
                status=lambda: status_of(replica, watch, releaser),
                order_rollback=rollback_orders.put,
                hosts=experts.hosts if experts else list,
                sessions=sessions,
                fail=asked_to_leave.fail,
            )
            url = services.enter_context(service)
            write_file(folder / ADDRESSES, "\n".join(addresses(dht)) + "\n")
            say(f"Run {run.name} is open at global step {replica.step} of {run.optimizer.total_steps}. To join:")
            say(f"  {one_line(url)}")
            say(f"or, where the program is installed: sahaj join {url}")
            for warning in warnings_about(run, url):
                say(warning)
            tell_opening(news, replica.step, folder)

            # What is done while the swarm trains: ledger, evaluations, checkpoints and releases.
            tracker = open_tracker(run, folder)
            baseline = UnigramBaseline(run, tokenizer, held_out, say, asked_to_leave)
            evaluator = Evaluator(
                context,
                build_model(run, tokenizer),
                tokenizer,
                held_out,
                probes,
                baseline,
                tracker,
                open_experts(run, ours.digest, dht, access.gate, hurries=False),
            )
            loop = CoordinatorLoop(
                context,
                replica,
                Recorder(context, sessions, replica, access, rollback.note_header),
                evaluator,
                rollback,
                tracker,
                releaser,
                experts,
                waiting,
                asked_to_leave,
                news=news,
                evaluated=min(max((one.step for one in context.ledger.evaluations()), default=-1), replica.step),
                saved=min(saved, replica.step),
            )
            loop_thread = threading.Thread(target=loop.work, name="coordinator-loop")
            if releaser:
                releaser.start()
            loop_thread.start()
            baseline.start()
            try:
                replica.follow(asked_to_leave)
            finally:
                asked_to_leave.set()
                loop_thread.join()
                baseline.finish()

            # The end: what was begun is finished, and only then does the peer leave.
            tracker.finish(timeout=1.0)
            if experts:
                experts.finish()
            evaluator.close()
            if releaser:
                releaser.finish()
            webhooks.finish(timeout=1.0)
            if not asked_to_leave.status:
                watch.stop()
                dht.shutdown()
        say(closing_line(replica.step, run.optimizer.total_steps, stopped=access.notices.decisions.stopped))
    finally:
        context.ledger.close()
        end_helpers()
    if asked_to_leave.status:  # threads of hivemind may wait for the DHT that is gone
        end_process(asked_to_leave.status)


def _keep_private(folder: Path, say: Callable[[str], None]) -> None:
    """Make the state folder private; a folder of something else keeps its permissions."""
    if is_of_another_kind(folder, SIGNS):
        raise StorageError(f"--state {folder}: holds something other than a coordinator's state; choose a new folder")
    if problem := keep_private(folder):
        say(problem)


def check_resume(run: RunFile, options: CoordinatorOptions, *, begins: bool) -> None:
    """Refuse `--resume` where the run would begin anew; small groups, which have no log, may.

    Raises:
        CheckpointError: there is nothing to resume from.
    """
    folder = options.state_folder
    had_begun = run.averaging.target_group_size and any((folder / name).exists() for name in (IDENTITY, LEDGER))
    if options.resume and begins and not had_begun:
        raise CheckpointError(
            f"--resume: {folder} has neither a log nor a checkpoint of the run; name its state folder with --state "
            "FOLDER, put a copy back, take the release with --from-hub, or leave out --resume to start a new run"
        )


def closing_line(step: int, total: int, *, stopped: bool) -> str:
    """What the organizer reads when the coordinator has ended at a global step."""
    if stopped or step >= total:
        return f"The run has ended after {step:,} global steps; the coordinator has stopped."
    return f"The coordinator has stopped at global step {step}. Start it again to go on."


def network(run: RunFile, options: CoordinatorOptions) -> Network:
    """Where this peer listens, and by whom it finds the swarm."""
    return Network(
        initial_peers=options.initial_peers,
        # they go on elsewhere if this is a new machine
        earlier_peers=remembered_peers.recall(options.state_folder / PEERS),
        listen=options.listen or tuple(run.coordinator.listen),
        announce=options.announce or tuple(run.coordinator.announce),
    )


def status_of(replica: Replica, watch: DHTWatch, releaser: Releaser | None) -> RunStatus:
    """Where the run stands now."""
    return RunStatus(
        step=replica.step,
        samples_gathered=replica.samples_gathered,
        stepped_at=replica.stepped_at,
        problem=watch.trouble,
        notebook_at_hub=releaser.notebook() if releaser else "",
    )


def open_news(run: RunFile, webhooks: Webhooks, step: int, rollback: Rollback, access: AccessControl) -> News:
    """What tells the webhooks and those who train; it knows of the checkpoints that count already."""
    return News(
        run,
        webhooks.tell,
        access.notices.show_best,
        step=step,
        losses=rollback.losses(),
        stopped=lambda: access.notices.decisions.stopped,
    )


def tell_opening(news: News, step: int, folder: Path) -> None:
    """Tell once that the run has begun: after a start that failed late, the next one does."""
    if step == 0 and not (folder / TOLD).exists():
        news.note_opening()
        write_file(folder / TOLD, "")


def open_releaser(context: RunContext, news: News, whole: list[Checkpoint]) -> Releaser | None:
    """What uploads checkpoints to the Hub, if the run file asks for it; it knows of those that are there already."""
    run = context.run
    if run.release is None:
        return None
    notebook = partial(invitation, run.name, run.access.url, run.language)
    releaser = Releaser(context, run.release, also=notebook, told=news.note_release)
    releaser.offer(whole)
    return releaser


def warnings_about(run: RunFile, url: str) -> list[str]:
    """What would keep others from joining by the link, where the run is not for this machine alone."""
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
