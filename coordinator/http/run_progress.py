"""The progress of the run: where it is, what the last hour brought, and when it will be finished."""

from coordinator.context import ServiceContext
from coordinator.http.schemas import LastHourAnswer, ProgressAnswer
from coordinator.ledger.answers import Progress, Totals
from coordinator.ledger.history import MINUTE
from coordinator.ledger.tables import MinuteRow
from swarm import clock

HOUR = 3600.0  # seconds
NEWEST_STEPS = 1000
MOST_EVALUATIONS = 1000


def describe_progress(
    context: ServiceContext, progress: Progress, totals: Totals, now: float | None = None
) -> ProgressAnswer:
    """The progress at a unix time, by default the clock's, as the ledger and the coordinator know it."""
    now = clock.now() if now is None else now
    decisions, run, ledger = context.notices.decisions, context.run, context.ledger
    since = max(0, progress.step - NEWEST_STEPS + 1)
    then = ledger.history.minute_after(now - HOUR)
    hour = None
    if then is not None and then.time < now:
        hour = _change(then, ledger.history.steps_counted_since(then.time), progress, totals, now)
    status, halted = context.status(), decisions.paused or decisions.stopped
    return ProgressAnswer(
        **dict(progress) | {"step": status.step},
        total_steps=run.optimizer.total_steps,
        step_samples=min(max(0, status.samples_gathered), run.averaging.target_batch_size),
        target_batch_size=run.averaging.target_batch_size,
        started=ledger.history.started(),
        finish=None if halted else expected_finish(status.step, run.optimizer.total_steps, hour, now),
        users_ever=totals.users,
        sessions_ever=totals.sessions,
        hours=totals.hours,
        last_hour=hour,
        paused=decisions.paused,
        stopped=decisions.stopped,
        announcement=decisions.announcement,
        steps=ledger.steps(since),
        evaluations=ledger.history.evaluations(MOST_EVALUATIONS),
    )


def expected_finish(step: int, total: int, hour: LastHourAnswer | None, now: float) -> float | None:
    """The unix time of the last of `total` global steps at the pace of the last hour; None if that is not known."""
    if step >= total or hour is None or hour.steps == 0 or hour.seconds < MINUTE:
        return None
    return now + (total - step) * hour.seconds / hour.steps


def _change(then: MinuteRow, steps: int, progress: Progress, totals: Totals, now: float) -> LastHourAnswer:
    return LastHourAnswer(
        seconds=now - then.time,
        steps=steps,
        samples=progress.samples - then.samples,
        tokens=progress.tokens - then.tokens,
        users_present=progress.users_present - then.users,
        users_ever=totals.users - then.users_ever,
        hours=totals.hours - then.seconds / 3600,
    )
