"""`/metrics`: where the run is, in the words of Prometheus."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coordinator.http.desk import Desk
from coordinator.ledger import LedgerError, Progress, Totals


class Joins:
    """Counts what became of attempts to join."""

    def __init__(self, registry: CollectorRegistry):
        self._joins = Counter("sahaj_joins", "attempts to join, by what became of them", ["outcome"], registry=registry)

    def count(self, outcome: str) -> None:
        """One more of this outcome: `joined`, or a refusal's name."""
        self._joins.labels(outcome).inc()


class Figures:
    """The run's figures in Prometheus' text form."""

    def __init__(self, desk: Desk, progress: Callable[[], Progress], totals: Callable[[], Totals]):
        self._registry = CollectorRegistry()
        self.joins = Joins(self._registry)
        self._registry.register(_RunCollector(desk, progress, totals))

    def text(self) -> bytes:
        """All of them now."""
        return generate_latest(self._registry)


class _RunCollector(Collector):
    def __init__(self, desk: Desk, progress: Callable[[], Progress], totals: Callable[[], Totals]):
        self._desk, self._progress, self._totals = desk, progress, totals

    def describe(self) -> list[Metric]:
        """Nothing: Prometheus would ask the ledger for it at registration."""
        return []

    def collect(self) -> Iterator[Metric]:
        """While the ledger cannot be read, its figures are absent rather than wrong."""
        decisions = self._desk.board.decisions
        yield GaugeMetricFamily("sahaj_step", "global step", self._desk.step())
        yield GaugeMetricFamily("sahaj_total_steps", "global steps of the run", self._desk.run.optimizer.total_steps)
        yield GaugeMetricFamily("sahaj_paused", "1 while no newcomers are let in", decisions.paused)
        yield GaugeMetricFamily("sahaj_stopped", "1 after the organizer has ended the run", decisions.stopped)
        try:
            progress, totals = self._progress(), self._totals()
        except LedgerError:
            return
        yield GaugeMetricFamily("sahaj_sessions", "sessions present", progress.sessions_present)
        yield GaugeMetricFamily("sahaj_users", "users present", progress.users_present)
        yield GaugeMetricFamily(
            "sahaj_samples_per_second", "speed of all sessions present", progress.samples_per_second
        )
        if progress.loss is not None:
            yield GaugeMetricFamily("sahaj_loss", "training loss of the newest global step, nats", progress.loss)
        if progress.eval_loss is not None:
            yield GaugeMetricFamily("sahaj_held_out_loss", "newest held-out loss, nats", progress.eval_loss)
        yield CounterMetricFamily("sahaj_samples", "samples in global steps", totals.samples)
        yield CounterMetricFamily("sahaj_tokens", "tokens in global steps", totals.tokens)
        yield CounterMetricFamily(
            "sahaj_averaging_rounds", "averaging rounds, summed over sessions", totals.averaging_rounds
        )
        yield CounterMetricFamily(
            "sahaj_averaging_failures", "failed averaging rounds, summed over sessions", totals.averaging_failures
        )
