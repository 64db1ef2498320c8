"""The routes about how the model learns: the run's history, and what it puts into fixed sentences."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from averaging.optimizers.state_step import learning_rate_at
from coordinator.context import RunContext
from coordinator.http.desk import Remembered
from coordinator.http.response_cache import KEPT, UNAVAILABLE, kept
from coordinator.http.schemas.history import (
    FilledSentenceAnswer,
    FillsAnswer,
    GuessAnswer,
    HistoricEvaluationAnswer,
    HistoryAnswer,
    LearningRateAnswer,
)
from coordinator.ledger.history import Fills
from swarm.run_file import OptimizerSection

POINTS = (50, 100, 200, 400, 600, 1000, 2000)  # few, so that few answers have to be found and remembered
RATES = 100
MOST_FILLS = 200


def learning_routes(context: RunContext) -> APIRouter:
    """GET alone. What costs the ledger something is found at most once in `KEPT` seconds."""
    router = APIRouter(tags=["learning"], responses=UNAVAILABLE)
    histories = {points: Remembered(partial(_history, context, points), KEPT) for points in POINTS}
    fills = Remembered(lambda: kept([_fills(one) for one in context.ledger.history.fills(MOST_FILLS)], KEPT), KEPT)

    @router.get("/api/history", response_model=HistoryAnswer)
    def history(points: Annotated[int, Query(ge=POINTS[0], le=POINTS[-1], description="at most")] = 600) -> Response:
        """The whole run, in at most so many points for each curve."""
        return histories[max(one for one in POINTS if one <= points)]()()

    @router.get("/api/fills", response_model=list[FillsAnswer])
    def filled_masks() -> Response:
        """What the model of each checkpoint puts into fixed sentences, oldest first; of many checkpoints some."""
        return fills()()

    return router


def planned_rates(settings: OptimizerSection) -> list[LearningRateAnswer]:
    """The learning rate from the first global step to the last, the end of the warm-up among them."""
    total = settings.total_steps
    steps = {round(number * total / RATES) for number in range(RATES + 1)} | {settings.warmup_steps}
    return [LearningRateAnswer(step=step, rate=learning_rate_at(settings, step)) for step in sorted(steps)]


def _history(context: RunContext, points: int) -> Callable[[], Response]:
    history = context.ledger.history
    answer = HistoryAnswer(
        steps=history.steps(points),
        evaluations=[HistoricEvaluationAnswer.model_validate(one) for one in history.evaluations(points)],
        minutes=history.minutes(points),
        learning_rate=planned_rates(context.run.optimizer),
    )
    return kept(answer, KEPT)


def _fills(one: Fills) -> FillsAnswer:
    return FillsAnswer(
        step=one.step,
        time=one.time,
        sentences=[
            FilledSentenceAnswer(
                text=sentence.text,
                guesses=[GuessAnswer(token=token, probability=probability) for token, probability in sentence.guesses],
            )
            for sentence in one.sentences
        ],
    )
