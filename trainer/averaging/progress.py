"""Decentralized progress tracking (DeDLOC, section 3.1): when has the swarm reached its target batch?

What this changes in hivemind's `ProgressTracker`:
- the target must really be reached. Upstream also starts a round when its *estimate* of the time has
  come, and after peers died it extrapolates their speed and rounds start half empty.
- a global step is told when it has been taken. Upstream tells it when its round begins: if that fails, or
  a peer dies in it, the others look for a state that nobody has. Until the round has ended, a peer here tells the
  samples that it brought to it, so that whoever looks a moment later begins the round, too.
- after a failed round only samples that are told from then on count: all others were lost with it.
- progress is told at most twice a second, and seldom while the global step is far from done. Upstream tells
  it after every batch, and a fast peer floods the DHT.
- a peer in client mode follows the others' global step and never goes on alone. It cannot be found
  by anybody, so on its own it would only train a second model in silence.
- a step, speed or time that cannot be true is left out, and samples beyond what a peer can have computed since the
  global step began do not count. Upstream believes the highest step that any peer claims.
- a step that the run's authority has signed is believed of whoever claims it: the coordinator has gone there alone.
- a peer that was seen counts until its record expires. Upstream forgets whoever the DHT does not find this once, and
  a peer that is busy for some seconds would think itself alone and take steps of its own.
- a peer whose companions are gone without a goodbye waits for them: it may be the one that is cut off, and with
  steps of its own it would make a second model. Upstream goes on alone.
- a peer that holds the state and computes nothing (the coordinator) announces itself too, so that
  a lone trainer averages with it, and peers in client mode follow its global step.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from hivemind.optim.progress_tracker import GlobalTrainingProgress, LocalTrainingProgress, ProgressTracker
from hivemind.utils import ValueWithExpiration

from swarm import clock
from trainer.averaging.claims import believed_samples, is_plausible, newest_believed
from trainer.averaging.company import Company

FASTEST_REPORT = 0.5  # seconds between two reports of this peer's progress at the end of a global step
SLOWEST_REPORT = 5.0  # and while it is far from done
NO_ESTIMATE = 7 * 86400.0  # seconds; a global step is never that long, and upstream says so of one that just began
TOLD_WITHIN = 5.0  # seconds after which a step that was taken is told, and can be read
PROGRESS_LIFETIME = 30.0  # seconds until a peer that went silent stops counting


class PacedEvent(threading.Event):
    """An event that a waiter sees at most once in `pause()` seconds, however often it is set.

    `seen` is called each time it was.
    """

    def __init__(self, pause: Callable[[], float], seen: Callable[[], None]):
        super().__init__()
        self._pause, self._seen, self._cleared = pause, seen, float("-inf")

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Event`."""
        while (early := self._cleared + self._pause() - time.monotonic()) > 0:
            time.sleep(min(early, FASTEST_REPORT / 2))  # the pause may have become shorter in between
        return super().wait(timeout)

    def clear(self) -> None:
        """See `threading.Event`."""
        self._cleared = time.monotonic()
        super().clear()
        self._seen()


class SwarmProgress(ProgressTracker):
    """hivemind's tracker, with the changes above."""

    def __init__(
        self,
        *args: Any,
        holds_state: bool = False,
        signed_step: Callable[[], int] = lambda: 0,
        longest_round: float = PROGRESS_LIFETIME,
        computes: Callable[[], bool] = lambda: True,
        **kwargs: Any,
    ):
        """`longest_round` is in seconds; `computes`: whether this peer adds samples now."""
        self.holds_state, self._signed_step, self._computes = holds_state, signed_step, computes
        self.company = Company(PROGRESS_LIFETIME, longest_round)
        self._in_round: LocalTrainingProgress | None = None  # what this peer brought to a round that has not ended
        self._round_failed = float("-inf")  # DHT time, seconds
        self._doubt_until = float("-inf")  # monotonic time, seconds
        self._found: dict[bytes, Any] = {}  # progress in the DHT, by the subkeys of those who tell it
        self._newest_step = -1  # that this peer has heard of
        self._newest_since = float("-inf")  # monotonic time, seconds
        self._looked = float("-inf")  # DHT time, seconds
        kwargs.setdefault("metadata_expiration", PROGRESS_LIFETIME)
        super().__init__(*args, **kwargs | {"start": False})
        self._told_step = -1
        self.should_report_progress = PacedEvent(self._report_pause, self._note_told_step)
        self.start()

    @property
    def others(self) -> int:
        """Peers seen at the last look, this one not counted."""
        return len(self.company.others)

    @property
    def companions(self) -> int:
        """Others with whom a group can be made for this peer's global step."""
        return self.company.at(self.local_progress.epoch, clock.now())

    @property
    def ready_to_update_epoch(self) -> bool:
        """Whether the swarm has gathered a whole batch for the global step that this peer is at."""
        if self.client_mode and not self.company.reachable:
            return False
        if self.holds_state and not self.others:  # nobody computes: a step now would be one on nothing
            return False
        at_newest = self.global_epoch <= self.local_progress.epoch
        return at_newest and self.global_progress.samples_accumulated >= self.target_batch_size

    def may_begin_within(self, seconds: float) -> bool:
        """Whether the next round may begin so soon; in a step's first moments nobody can tell that it will not."""
        left = self.estimated_next_update_time - clock.now()
        return left < seconds or left > NO_ESTIMATE

    @property
    def swarm_samples_per_second(self) -> float:
        """Speed of all peers together, as they report it."""
        others = sum(other.progress.samples_per_second for other in self.company.others)
        return others + self.local_progress.samples_per_second

    @property
    def own_speed(self) -> float:
        """Samples a second that this peer computes, or last did; 0: not known."""
        return self.performance_ema.samples_per_second if self.performance_ema.num_updates else 0.0

    def _get_local_progress(self, local_epoch: int, samples_accumulated: int) -> LocalTrainingProgress:
        progress = super()._get_local_progress(local_epoch, samples_accumulated)
        if not self._computes():
            progress.samples_per_second = 0.0  # the others would add samples that never come
        return progress

    def _note_told_step(self) -> None:
        self._told_step = -1 if self._in_round else self.local_progress.epoch

    def _report_pause(self) -> float:
        """Seconds between two reports: few while the global step is far from done, more towards its end."""
        if self.shutdown_triggered.is_set():
            return 0.0
        if self.local_progress.epoch != self._told_step:
            return FASTEST_REPORT
        return report_pause(self.global_progress.eta_next_epoch - clock.now())

    def round_began(self) -> None:
        """Go on telling the samples that are in the round now, until it is known how it ended."""
        self._in_round = self.local_progress
        self.should_report_progress.set()

    def round_failed(self, step: int, samples: int) -> None:
        """The step was not taken: this peer is at `step` again, with samples that were not in the round."""
        if self.global_progress.epoch == step + 1:
            self.global_progress.epoch = step
            self.global_progress.samples_accumulated = 0
        self._round_failed = clock.now()
        self.report_local_progress(step, samples)
        self.round_ended()

    def round_ended(self) -> None:
        """Tell the progress of this peer again, and look soon what the others say."""
        self._in_round = None
        self._told_step = -1
        self.should_report_progress.set()
        self.global_progress.next_fetch_time = clock.now() + FASTEST_REPORT
        self.global_state_updated.set()

    def believes(self, step: int) -> bool:
        """Whether the swarm has reached a global step, as far as can be seen within seconds; updates are paused."""
        patience_ends = time.monotonic() + TOLD_WITHIN
        while step > self.global_epoch and time.monotonic() < patience_ends:
            found = self.dht.get(self.training_progress_key, latest=True)
            self.global_progress = self._parse_swarm_progress_data(found.value if found else None)
            time.sleep(FASTEST_REPORT)
        return step <= self.global_epoch

    def doubt_newer_steps(self, seconds: float) -> None:
        """Do not believe in steps beyond ours for a while: nobody has a state to show for them."""
        self._doubt_until = time.monotonic() + seconds

    def _parse_swarm_progress_data(self, metadata: Any) -> GlobalTrainingProgress:
        known = self._not_expired(metadata if isinstance(metadata, dict) else {})
        entries = self._plausible(known)
        progress = super()._parse_swarm_progress_data(entries)
        said_goodbye = {key for key, entry in known.items() if entry.value is None}
        self.company.look({key: one for key, one in entries.items() if key != self._local_public_key}, said_goodbye)
        # upstream counts this peer only once its own record has come back from the DHT
        progress.num_peers = self.others + 1
        if self.client_mode and self.company.fell_back(self.local_progress.epoch):
            progress.epoch = max(peer.epoch for peer in self.company.reachable)
        return progress

    def _not_expired(self, entries: dict[bytes, Any]) -> dict[bytes, Any]:
        """What was found in the DHT now, and what was found before and has not expired."""
        now = clock.now()
        known = {key: entry for key, entry in self._found.items() if entry.expiration_time > now}
        for key, entry in entries.items():
            if key not in known or entry.expiration_time >= known[key].expiration_time:
                known[key] = entry
        self._found = known
        return known

    def _plausible(self, entries: dict[bytes, Any]) -> dict[bytes, Any]:
        """The progress of others that can be true, and this peer's own."""
        own = self._local_public_key
        told = {key: entry for key, entry in entries.items() if entry.value is not None}
        claims = [entry.value["epoch"] for key, entry in told.items() if key != own]
        believed = newest_believed(claims, self.local_progress.epoch)
        if time.monotonic() < self._doubt_until:
            believed = min(believed, self.local_progress.epoch)
        signed = self._signed_step()
        if signed in claims:  # on the authority's word nobody else has to be near
            believed = max(believed, signed)
        step_seconds = self._step_seconds(max(believed, self.local_progress.epoch))
        return {
            key: entry if key == own else self._with_believed_samples(entry, step_seconds)
            for key, entry in told.items()
            if key == own
            or is_plausible(entry.value["epoch"], entry.value["samples_per_second"], entry.value["time"], believed)
        }

    def _step_seconds(self, newest: int) -> float:
        """How long this peer has known of the newest global step; infinite where nobody was looking when it began."""
        absent = clock.now() - self._looked > self.metadata_expiration  # the machine may have slept
        self._looked = clock.now()
        if newest > self._newest_step or absent:
            self._newest_since = float("-inf") if absent else time.monotonic()
            self._newest_step = newest
        return time.monotonic() - self._newest_since

    def _with_believed_samples(self, entry: Any, step_seconds: float) -> Any:
        """A peer's progress; samples that were told before our last round failed are gone, wherever they are."""
        told = entry.value
        samples = believed_samples(told["samples_accumulated"], told["samples_per_second"], step_seconds)
        if told["epoch"] <= self.local_progress.epoch and told["time"] < self._round_failed:
            samples = 0
        # upstream adds what a peer computes since then; it told that a moment ago, or the record would have expired
        since = max(told["time"], clock.now() - self.metadata_expiration)
        return ValueWithExpiration(told | {"samples_accumulated": samples, "time": since}, entry.expiration_time)

    async def _progress_reporter(self) -> None:
        loop, computes = asyncio.get_running_loop(), False
        telling: set[asyncio.Task[Any]] = set()
        while not self.shutdown_triggered.is_set():
            computes = computes or self.holds_state or self.local_progress.samples_accumulated > 0
            if computes:  # a newcomer that has not computed anything yet is nobody to wait for
                telling.add(asyncio.create_task(self._tell()))
            await loop.run_in_executor(None, self.should_report_progress.wait, PROGRESS_LIFETIME / 3)
            self.should_report_progress.clear()
            telling = {task for task in telling if not task.done()}

    async def _tell(self) -> None:
        told = self._in_round or self.local_progress
        store = self.dht.store(
            key=self.training_progress_key,
            subkey=self._local_public_key,
            value=told.dict(),
            expiration_time=clock.now() + self.metadata_expiration,
            return_future=True,
        )
        await asyncio.wait({asyncio.ensure_future(store)}, timeout=self.metadata_expiration / 3)


def report_pause(seconds_left: float) -> float:
    """Seconds to the next report when a global step has `seconds_left`: a tenth of them, within bounds."""
    if seconds_left > NO_ESTIMATE:  # the first seconds of a run: nobody's speed is known
        return FASTEST_REPORT
    return min(SLOWEST_REPORT, max(FASTEST_REPORT, seconds_left / 10))
