"""`/metrics`: figures of the run for Prometheus."""

import contextlib
import datetime
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coordinator.cached import Cached
from coordinator.checkpoints.checkpoint import newest_checkpoint
from coordinator.http.responses import CACHE_SECONDS
from coordinator.ledger.answers import Progress, Totals
from coordinator.ledger.storage.database import LedgerError
from coordinator.run_context import ServiceContext
from swarm import clock


class Metrics(Collector):
    """The run's metrics in Prometheus' text format."""

    def __init__(self, context: ServiceContext, progress: Callable[[], Progress], totals: Callable[[], Totals]):
        self._context, self._progress, self._totals = context, progress, totals
        self._waiting = Cached(context.ledger.history.data_wait, CACHE_SECONDS)
        self._newest = Cached(lambda: newest_checkpoint(context.checkpoints), CACHE_SECONDS)
        self._registry = CollectorRegistry()
        what = "attempts to join, by what became of them"
        self._joins = Counter("sahaj_joins", what, ["outcome"], registry=self._registry)
        self._registry.register(self)

    def count_join(self, outcome: str) -> None:
        """Count an attempt to join; the outcome is `joined` or a refusal's name."""
        self._joins.labels(outcome).inc()

    def text(self) -> bytes:
        """All of them now."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing: Prometheus would ask the ledger for it at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """While the ledger cannot be read, its metrics are absent rather than wrong."""
        decisions, status = self._context.notices.decisions, self._context.status()
        stepped_at = "unix time of the newest global step, or of the coordinator's start if there was none since"
        yield _gauge("step", "global step", status.step)
        yield _gauge("total_steps", "global steps of the run", self._context.run.optimizer.total_steps)
        yield _gauge("paused", "1 while no newcomers are let in", decisions.paused)
        yield _gauge("stopped", "1 after the organizer has ended the run", decisions.stopped)
        yield _gauge("last_step_timestamp_seconds", stepped_at, status.stepped_at)
        if (newest := self._newest()) is not None:
            yield _gauge("checkpoint_step", "global step of the newest whole checkpoint", newest.state.step)
            with contextlib.suppress(ValueError):  # its time may have been edited
                age = clock.now() - datetime.datetime.fromisoformat(newest.state.saved_at).timestamp()
                yield _gauge("checkpoint_age_seconds", "seconds since the newest whole checkpoint was saved", age)
        yield from self._from_ledger()

    def _from_ledger(self) -> Iterator[Metric]:
        try:
            progress, totals, data_wait = self._progress(), self._totals(), self._waiting()
            newest = self._context.ledger.steps(progress.step)
        except LedgerError:
            return
        waiting = "fraction of their time that sessions present have waited for data, their mean"
        below = "by how much the newest held-out loss is below a table of word frequencies, nats"
        peers = newest[-1].peers if newest else 0
        yield _gauge("sessions", "sessions present", progress.sessions_present)
        yield _gauge("users", "users present", progress.users_present)
        yield _gauge("samples_per_second", "speed of all sessions present", progress.samples_per_second)
        yield _gauge("step_peers", "sessions in the newest global step of the ledger", peers)
        yield _gauge("data_wait_fraction", waiting, data_wait)
        if progress.loss is not None:
            yield _gauge("loss", "training loss of the newest global step, nats", progress.loss)
        if progress.eval_loss is not None:
            yield _gauge("held_out_loss", "newest held-out loss, nats", progress.eval_loss)
        if progress.below_unigram is not None:
            yield _gauge("below_unigram", below, progress.below_unigram)
        yield _counter("samples", "samples in global steps", totals.samples)
        yield _counter("tokens", "tokens in global steps", totals.tokens)
        yield _counter("averaging_rounds", "averaging rounds, summed over sessions", totals.averaging_rounds)
        yield _counter("averaging_failures", "failed averaging rounds, summed over sessions", totals.averaging_failures)


def _gauge(name: str, what: str, value: float) -> Metric:
    return GaugeMetricFamily(f"sahaj_{name}", what, value)


def _counter(name: str, what: str, value: float) -> Metric:
    return CounterMetricFamily(f"sahaj_{name}", what, value)
