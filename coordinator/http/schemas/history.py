"""The JSON about how the run went: curves for whoever draws them."""

from pydantic import Field

from coordinator.http.schemas.public import BELOW_UNIGRAM, UNIGRAM_LOSS, Answer


class StepBucketAnswer(Answer):
    """Successive global steps."""

    step: int = Field(description="the last of them")
    time: float | None = Field(description="when that was counted; unknown of steps that an old program counted")
    samples: float = Field(description="in a step, on average")
    tokens: float = Field(description="in a step, on average")
    peers: float = Field(description="in a step, on average")
    loss: float = Field(description="mean over samples")


class HistoricEvaluationAnswer(Answer):
    """A held-out evaluation."""

    step: int
    time: float
    loss: float
    perplexity: float | None = Field(description="of a masked token; none where it is beyond all numbers")
    sentence_order_loss: float
    sentence_order_accuracy: float | None = Field(description="from 0 to 1; unknown of old ones")
    unigram_loss: float | None = Field(description=UNIGRAM_LOSS)
    below_unigram: float | None = Field(description=BELOW_UNIGRAM)


class SpanAnswer(Answer):
    """Some minutes of the run, one after the other."""

    time: float = Field(description="when the last of them began")
    sessions: float = Field(description="present, on average")
    users: float = Field(description="present, on average")
    samples_per_second: float = Field(description="of all sessions present, as they say")
    tokens_per_second: float = Field(description="counted, since the end of the span before")
    averaging_rounds: int = Field(description="ended since the end of the span before; one of three peers counts 3")
    averaging_failures: int = Field(description="failed since the end of the span before")
    averaging_seconds: float | None = Field(description="mean time of a round; none if there was none")
    data_wait_fraction: float = Field(description="of their time that sessions waited for data, on average")


class LearningRateAnswer(Answer):
    """The learning rate that is planned for a global step."""

    step: int
    rate: float


class HistoryAnswer(Answer):
    """The whole run, from its beginning until now."""

    steps: list[StepBucketAnswer]
    evaluations: list[HistoricEvaluationAnswer]
    minutes: list[SpanAnswer]
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
