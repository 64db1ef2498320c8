"""The routes about how the model learns: the run's history, and its predictions for fixed sentences."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from averaging.optimizers.schedule import learning_rate_at
from coordinator.http.responses import UNAVAILABLE, CachedJson
from coordinator.http.schemas import HistoricEvaluationAnswer, HistoryAnswer, LearningRateAnswer
from coordinator.ledger.answers import Fills
from coordinator.run_context import RunContext
from swarm.run_file import OptimizerSection

POINTS = (50, 100, 200, 400, 600, 1000, 2000)  # few, so that few answers are found and cached
RATES = 100
MOST_FILLS = 200


def learning_routes(context: RunContext) -> APIRouter:
    """GET only; the ledger is read at most once in `CACHE_SECONDS`."""
    router = APIRouter(tags=["learning"], responses=UNAVAILABLE)
    histories = {points: CachedJson(partial(_history, context, points)) for points in POINTS}
    fills = CachedJson(lambda: context.ledger.history.fills(MOST_FILLS))

    @router.get("/api/history", response_model=HistoryAnswer)
    def history(points: Annotated[int, Query(ge=POINTS[0], le=POINTS[-1], description="at most")] = 600) -> Response:
        """The whole run, in at most so many points for each curve."""
        return histories[max(one for one in POINTS if one <= points)]()

    @router.get("/api/fills", response_model=list[Fills])
    def filled_masks() -> Response:
        """What the model of each checkpoint predicts for fixed sentences, oldest first; of many checkpoints some."""
        return fills()

    return router


def planned_rates(settings: OptimizerSection) -> list[LearningRateAnswer]:
    """The learning rate from the first global step to the last, the end of the warm-up among them."""
    total = settings.total_steps
    steps = {round(number * total / RATES) for number in range(RATES + 1)} | {settings.warmup_steps}
    return [LearningRateAnswer(step=step, rate=learning_rate_at(settings, step)) for step in sorted(steps)]


def _history(context: RunContext, points: int) -> HistoryAnswer:
    history = context.ledger.history
    return HistoryAnswer(
        steps=history.steps(points),
        evaluations=[HistoricEvaluationAnswer.model_validate(one) for one in history.evaluations(points)],
        minutes=history.minutes(points),
        learning_rate=planned_rates(context.run.optimizer),
    )
