"""The JSON about the course of the run: curves to draw."""

import math

from pydantic import Field, computed_field

from coordinator.evaluation.held_out import perplexity
from coordinator.ledger.answers import Answer, EvaluationRecord, Span, StepBucket


class HistoricEvaluationAnswer(EvaluationRecord):
    """A held-out evaluation."""

    @computed_field(description="of a masked token; none where it is beyond all numbers")  # type: ignore[prop-decorator]
    @property
    def perplexity(self) -> float | None:
        """Of a masked token, None if it is infinite."""
        found = perplexity(self.loss)
        return found if math.isfinite(found) else None


class LearningRateAnswer(Answer):
    """The learning rate that is planned for a global step."""

    step: int
    rate: float


class HistoryAnswer(Answer):
    """The whole run, from its beginning until now."""

    steps: list[StepBucket]
    evaluations: list[HistoricEvaluationAnswer]
    minutes: list[Span]
    learning_rate: list[LearningRateAnswer] = Field(description="to the run's end; between two points it is a line")


class GuessAnswer(Answer):
    """A token that the model would put."""

    token: str
    probability: float


class FilledSentenceAnswer(Answer):
    """A sentence with a mask, and what the model would put there."""

    text: str = Field(description="the gap is shown as [MASK]")
    guesses: list[GuessAnswer] = Field(description="the likeliest first")


class FillsAnswer(Answer):
    """What the model of a global step puts into fixed sentences."""

    step: int
    time: float
    sentences: list[FilledSentenceAnswer]
