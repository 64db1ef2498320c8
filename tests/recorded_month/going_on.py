"""The month goes on while it is served: those who are there report as peers do, through the real ledger."""

import threading
import time
from dataclasses import replace

from coordinator.ledger.history import MinuteRecorder
from coordinator.ledger.ingest import Contribution, SessionReport
from coordinator.ledger.ledger import Ledger
from swarm.run_file import RunFile
from tests.recorded_month.training import KEPT_OF_SPEED
from tests.recorded_month.writing import TOKENS, UNIGRAM_LOSS, filled

TICK = 2.0  # seconds between two looks


class GoingOn:
    """Global steps after those of the ledger, by the sessions that are there; in a thread, from `start` to `stop`."""

    def __init__(self, run: RunFile, ledger: Ledger):
        self._run, self._ledger = run, ledger
        self._minutes = MinuteRecorder(ledger.history)
        fields = set(SessionReport.__dataclass_fields__)
        self._here = [SessionReport(**one.model_dump(include=fields)) for one in ledger.sessions() if one.present]
        self._speed = sum(one.samples_per_second for one in self._here) * KEPT_OF_SPEED
        progress = ledger.progress()
        self.step, self._loss = progress.step + 1, progress.loss or 10.4
        self._gathered, self._rounds = 0.0, 0
        self._brought: dict[str, list[Contribution]] = {one.session_id: [] for one in self._here}  # and not told yet
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="going-on", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._closing.set()
        self._thread.join()

    def gathered(self) -> int:
        """Samples towards the next global step."""
        return int(self._gathered)

    def tell(self, now: float) -> None:
        """All who are there report what they have brought so far."""
        told = [
            replace(
                one,
                last_seen=now,
                step=self.step,
                averaging_rounds=one.averaging_rounds + self._rounds,
                contributions=tuple(self._brought[one.session_id]),
            )
            for one in self._here
        ]
        self._ledger.record(told, now)
        for brought in self._brought.values():
            brought.clear()

    def _work(self) -> None:
        before = time.time()
        while not self._closing.wait(TICK):
            now = time.time()
            self._gathered += self._speed * (now - before)
            before = now
            while self._gathered >= self._run.averaging.target_batch_size:
                self._take_step(now)
            self.tell(now)
            self._minutes.note()

    def _take_step(self, now: float) -> None:
        target = self._run.averaging.target_batch_size
        for one in self._here:
            samples = round(target * one.samples_per_second * KEPT_OF_SPEED / self._speed)
            digest = f"{self.step:064x}"
            self._brought[one.session_id].append(Contribution(digest, self.step, samples, samples * TOKENS, self._loss))
        self._gathered -= target
        self._rounds += 1
        self.step += 1
        settings = self._run.coordinator
        if self.step % settings.evaluate_every == 0:
            self._ledger.record_evaluation(
                self.step,
                self._loss + 0.06,
                sentence_order_loss=0.28,
                samples=1024,
                sentence_order_accuracy=0.89,
                unigram_loss=UNIGRAM_LOSS,
            )
        if self.step % settings.checkpoint_every == 0:
            self._ledger.history.record_fills(self.step, filled(settings.probes, self.step), now)
