"""Keeps the experts' states on the coordinator, and writes them into each checkpoint, in a thread of its own.

States come from hosts (`experts/remote/state_collection.py`) into a folder beside the checkpoints. A checkpoint gets
the file `experts.safetensors` some time after it was saved.
"""

import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import TimeoutError as TooSlow
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hivemind.dht import DHT
from safetensors import SafetensorError

from averaging.optimizers.schedule import schedule_factor
from averaging.transport.loop import LoopEnded, LoopThread, join_daemon
from coordinator.checkpoints.checkpoint import newest_checkpoint
from coordinator.checkpoints.checksums import SUMS, read_sums, with_sum
from coordinator.run_context import RunContext
from coordinator.state_folder import EXPERTS
from experts import file_names
from experts.directory.records import LIFETIME, Directory, Listed, NoAnswer
from experts.grid import Uid
from experts.host.release import older_versions, pack, unpack
from experts.host.settings import ExpertSettings, settings_of
from experts.remote.connection import Swarm
from experts.remote.state_collection import StateCollection
from swarm import clock
from swarm.access.gate import Gate
from swarm.errors import SahajError, StorageError
from swarm.files import fsync, storage_errors, write_file
from swarm.identity import Identity
from swarm.logging.logs import log_failure

PATIENCE = 600.0  # seconds for the states of one checkpoint to come
MOST_NAMED = 8  # experts in a message
CLOSING = 5.0  # seconds for streams to end
STAY = (
    "experts stay as they are; `sahaj admin LINK restore STEP` takes them back to a checkpoint that has "
    f"{file_names.EXPERTS}"
)
ROLLBACK = "rollback"  # beside the states while experts go back: names the checkpoint
FINISHING = 15.0  # seconds for the file of the last checkpoint, when the coordinator stops


def open_expert_states(
    context: RunContext, dht: DHT, identity: Identity, gate: Gate, step: Callable[[], int]
) -> "ExpertStates | None":
    """Begin to keep states, if the run has experts; hivemind's processes must have been forked before.

    Hosts that start are answered from the first moment that they can join. States that the newest checkpoint has and
    the folder lacks, as after a restart from the Hub, are made of its file.

    Args:
        step: of the state that this coordinator has, -1 if none; experts follow the run's schedule.

    Raises:
        StorageError: a state cannot be written.
    """
    settings = settings_of(context.run)
    if settings is None:
        return None
    loop = LoopThread("experts")
    directory = Directory(dht, context.run.name, gate, settings.grid, settings.fingerprint)
    p2p = loop.call(join_daemon(dht))
    swarm = Swarm(p2p, identity, gate, context.fingerprint.digest, directory)

    async def begin() -> StateCollection:
        optimizer = context.run.optimizer
        collection = StateCollection(
            swarm, settings, context.folder / EXPERTS, lambda: schedule_factor(optimizer, step())
        )
        await collection.start()
        return collection

    collection = loop.call(begin())

    def close() -> None:
        with contextlib.suppress(TooSlow):  # the DHT is gone
            loop.call(collection.stop(), CLOSING)
        with contextlib.suppress(TooSlow):
            loop.call(p2p.shutdown(), CLOSING)
        loop.stop()

    def collect() -> dict[Uid, str]:
        return loop.call(collection.collect(PATIENCE))

    folder = context.folder / EXPERTS
    states = ExpertStates(settings, collection, collect, close, context.say, folder, directory.read)
    states.resume_rollback(context.checkpoints)
    newest = newest_checkpoint(context.checkpoints)
    if newest is not None:
        states.begin_with(newest.path)
    states.start()
    return states


@dataclass
class _Rollback:
    """What experts go back to."""

    checkpoint: Path
    hosts_until: float  # Unix time until when hosts are looked for
    versions: dict[Uid, int] | None = None  # of the states to be made; None before hosts were found
    is_noted: bool = False  # on the disk


class ExpertStates:
    """Collects states for checkpoints in a thread of its own; the other methods are for one other thread.

    Args:
        collect: brings the files of `collection` up to date, and returns what did not come; may take minutes.
        close: ends what `collect` works with.
        folder: of those files.
        read_hosts: asks the DHT which hosts are listed.
    """

    def __init__(
        self,
        settings: ExpertSettings,
        collection: StateCollection,
        collect: Callable[[], dict[Uid, str]],
        close: Callable[[], None],
        say: Callable[[str], None],
        folder: Path,
        read_hosts: Callable[[], list[Listed]],
    ):
        self._read_hosts = read_hosts
        self._settings, self._files, self._folder = settings, collection.files, folder
        self._collect, self._close, self._say = collect, close, say
        self._asked: queue.SimpleQueue[Path | None] = queue.SimpleQueue()  # None: to leave
        self._pending: set[Path] = set()
        self._lock = threading.Lock()  # a rollback does not begin or end while a checkpoint is packed
        self._rollback: _Rollback | None = None  # under way ...
        self._held: list[Path] = []  # ... and checkpoints that wait for its end
        self._thread = threading.Thread(target=self._work, name="expert-states", daemon=True)

    def begin_with(self, checkpoint: Path) -> None:
        """Take the states of a checkpoint that are newer; collect for it if it has none that can be used.

        Raises:
            StorageError: a state cannot be written.
        """
        try:
            if file_names.EXPERTS in read_sums(checkpoint):  # otherwise the last coordinator ended before it was whole
                unpack(checkpoint / file_names.EXPERTS, self._settings, self._files)
                return
        except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
            self._say(
                f"problem: {checkpoint / file_names.EXPERTS}: cannot be used ({error}); the states on the disk are"
            )
        self.collect_for(checkpoint)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def roll_back(self, checkpoint: Path | None) -> None:
        """Have experts go back to what a checkpoint has; `follow_rollback` does it.

        A file that the checkpoint does not have yet it does not get any longer: it would have later states.

        Args:
            checkpoint: to which the run goes back; None if it is not here.
        """
        if checkpoint is None:
            self._say(f"problem: the checkpoint to go back to is not here any longer, so {STAY}")
            return
        with self._lock:
            self._pending.discard(checkpoint)
            self._rollback = _Rollback(checkpoint, clock.now() + LIFETIME)
        with contextlib.suppress(StorageError, OSError):  # `follow_rollback` tries again
            self._note(self._rollback)

    def resume_rollback(self, checkpoints: Path) -> None:
        """Go on with what an earlier coordinator did not end."""
        with contextlib.suppress(FileNotFoundError):
            self.roll_back(checkpoints / (self._folder / ROLLBACK).read_text())

    def follow_rollback(self) -> None:
        """Make states of a checkpoint's experts that are newer than any other, so that hosts take them over.

        Checkpoints get no file meanwhile.

        Raises:
            StorageError: a state cannot be written; the next call goes on.
        """
        if self._rollback is None:
            return
        note = self._note(self._rollback)
        try:
            if not self._roll_back(self._rollback):
                return
        except StorageError:
            raise
        except Exception as error:
            log_failure(error, "experts stay as they are in a rollback")
            file = self._rollback.checkpoint / file_names.EXPERTS
            self._say(f"problem: {file}: cannot be used ({error}), so {STAY}")
        with storage_errors(note):
            note.unlink(missing_ok=True)
        with self._lock:
            self._rollback = None
            while self._held:
                self._asked.put(self._held.pop(0))

    def hosts(self) -> list[Listed]:
        """The hosts that are listed now; none while the DHT does not answer. From any thread."""
        with contextlib.suppress(NoAnswer, TooSlow):
            return self._read_hosts()
        return []

    @property
    def pending(self) -> frozenset[Path]:
        """Checkpoints that still get their file."""
        return frozenset(self._pending)

    def collect_for(self, checkpoint: Path) -> None:
        """Collect states, and write them into this checkpoint."""
        self._pending.add(checkpoint)
        if self._rollback is None:
            self._asked.put(checkpoint)
        else:
            self._held.append(checkpoint)

    def finish(self, timeout: float = FINISHING) -> None:
        """Collect nothing more, end a rollback, and wait a little for the file of the last checkpoint."""
        if self._rollback is not None:
            self._rollback.hosts_until = 0.0
            try:
                self.follow_rollback()
            except StorageError as error:
                resumes = "experts go back when the coordinator is started again"
                self._say(f"problem: {error}, so {resumes if (self._folder / ROLLBACK).exists() else STAY}")
        self._asked.put(None)
        self._close()  # a collection under way fails, and what has come is written
        self._thread.join(timeout)

    def _work(self) -> None:
        while (checkpoint := self._asked.get()) is not None:
            if self._asked.empty():  # otherwise a later one is waiting, which gets newer states
                self._reporting_errors(self._bring_up_to_date)
            with self._lock:
                if self._rollback is not None:  # or it would have states of both
                    self._held.append(checkpoint)
                    continue
                if checkpoint in self._pending:  # otherwise the run has gone back to it meanwhile
                    self._reporting_errors(partial(self._write, checkpoint))
                self._pending.discard(checkpoint)

    def _bring_up_to_date(self) -> None:
        missing = [f"{'.'.join(map(str, uid))} of {peer}" for uid, peer in self._collect().items()]
        if missing:
            self._say(
                f"problem: the states of {len(missing)} experts did not arrive ({', '.join(missing[:MOST_NAMED])}"
                f"{', ...' if len(missing) > MOST_NAMED else ''}); older ones are kept; see that these hosts answer"
            )

    def _roll_back(self, rollback: _Rollback) -> bool:
        """Whether it is over; not while hosts may still be found, which may have experts of which we have no state."""
        checkpoint, file = rollback.checkpoint, rollback.checkpoint / file_names.EXPERTS
        if file_names.EXPERTS not in read_sums(checkpoint):
            self._say(f"problem: {checkpoint} has no {file_names.EXPERTS}, so {STAY}")
            return True
        if rollback.versions is None:
            hosts = self.hosts()
            if not hosts and clock.now() < rollback.hosts_until:
                return False
            served = {uid for host in hosts for uid in host.holdings.serves}
            rollback.versions = older_versions(file, self._files, served)
        unpack(file, self._settings, self._files, rollback.versions)
        count = len(rollback.versions)
        self._say(f"{count} experts go back to what {checkpoint} has; their hosts ask for it within a minute")
        return True

    def _note(self, rollback: _Rollback) -> Path:
        """Write down what experts go back to, for a coordinator that is started again; returns the file."""
        note = self._folder / ROLLBACK
        if not rollback.is_noted:  # the note of an earlier one may be there
            try:
                write_file(note, rollback.checkpoint.name)
            except StorageError:
                note.unlink(missing_ok=True)  # a restart would go back to the checkpoint of the earlier one
                raise
            rollback.is_noted = True
        return note

    def _write(self, checkpoint: Path) -> None:
        """The file takes its name only when it is whole, and never makes the folder of a checkpoint that is gone."""
        file, sums = (self._folder / f".{name}" for name in (file_names.EXPERTS, SUMS))
        with storage_errors(file):
            count = pack(self._files, self._settings, file)
            if not count:
                return
            fsync(file)
            try:
                file.replace(checkpoint / file_names.EXPERTS)
                sums.write_bytes(with_sum(checkpoint, file_names.EXPERTS))
                fsync(sums)
                sums.replace(checkpoint / SUMS)
            except FileNotFoundError:  # it was removed meanwhile, as older ones are
                file.unlink(missing_ok=True)
                return
            fsync(checkpoint)
        self._say(f"{checkpoint}: has the states of {count} experts")

    def _reporting_errors(self, task: Callable[[], None]) -> None:
        try:
            task()
        except LoopEnded:
            return  # `finish` was called
        except SahajError as error:
            self._say(f"problem: {error}")
        except Exception as error:
            log_failure(error, "the experts' states were not kept")
            self._say(f"problem: the experts' states were not kept ({type(error).__name__}: {error})")
