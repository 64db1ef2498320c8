"""What the ledger answers. The HTTP service sends the same models as JSON, some with fields of its own added.

They are made from rows of queries whose columns have the same names. Times are unix seconds, losses are in nats.
"""

import datetime
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field, computed_field

from swarm.milestones import Kind

UNIGRAM_LOSS = "of a table of token frequencies on the same masked positions; none while it is not known"
BELOW_UNIGRAM = "unigram loss less held-out loss: above 0 the model knows more than which words are common"
SERVED = "that experts here served to trainers of other users; a token counts once for each expert that it went to"
HOURS = "of presence, added up over devices: an hour on two devices is two"


def below_unigram(loss: float | None, unigram: float | None) -> float | None:
    """By how many nats a held-out loss is below the unigram loss; None if one of them is unknown."""
    return None if loss is None or unigram is None else unigram - loss


def compared(below: float | None) -> str:
    """A comparison to put after a held-out loss in text; empty if it is unknown."""
    if below is None:
        return ""
    return f", {abs(below):.2f} {'lower' if below >= 0 else 'higher'} than guessing from word frequencies alone"


class Answer(BaseModel):
    """Times are unix seconds, losses are in nats."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Progress(Answer):
    """Where the run is now; losses are none before the first, sessions are present if they reported recently."""

    step: int
    samples: int
    tokens: int
    loss: float | None
    eval_step: int | None
    eval_loss: float | None
    unigram_loss: float | None = Field(description=UNIGRAM_LOSS)
    sessions_present: int
    users_present: int
    samples_per_second: float

    @computed_field(description=BELOW_UNIGRAM)  # type: ignore[prop-decorator]
    @property
    def below_unigram(self) -> float | None:
        """By how many nats the held-out loss is below the unigram loss."""
        return below_unigram(self.eval_loss, self.unigram_loss)


class Totals(Answer):
    """The whole run so far. Rounds are summed over sessions: a round of three peers counts three times."""

    steps: int
    samples: int
    tokens: int
    users: int
    sessions: int
    averaging_rounds: int
    averaging_failures: int
    data_wait_fraction: float = Field(description="of all sessions' time")
    hours: float = Field(description=HOURS)


class StepSummary(Answer):
    """One global step over all its peers."""

    step: int
    samples: int
    tokens: int
    peers: int
    loss: float = Field(description="mean over samples")


class StepBucket(Answer):
    """Successive global steps."""

    step: int = Field(description="the last of them")
    time: float = Field(description="when that was counted")
    samples: float = Field(description="in a step, on average")
    tokens: float = Field(description="in a step, on average")
    peers: float = Field(description="in a step, on average")
    loss: float = Field(description="mean over samples")


class Span(Answer):
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


class EvaluationRecord(Answer):
    """A held-out evaluation on `samples` sentence pairs: masked-LM loss, and sentence-order loss if that is learned."""

    step: int
    loss: float
    sentence_order_loss: float | None = Field(description="none if the model does not learn it")
    samples: int
    time: float
    sentence_order_accuracy: float | None = Field(None, description="from 0 to 1; none as its loss")
    unigram_loss: float | None = Field(None, description=UNIGRAM_LOSS)
    loss_with_experts: float | None = Field(None, description="with those that answered; `loss` is without them")

    @computed_field(description=BELOW_UNIGRAM)  # type: ignore[prop-decorator]
    @property
    def below_unigram(self) -> float | None:
        """By how many nats the loss is below the unigram loss."""
        return below_unigram(self.loss, self.unigram_loss)


class Guess(Answer):
    """A token that the model would put."""

    token: str
    probability: float


class FilledSentence(Answer):
    """A sentence with a mask, and what the model would put there."""

    text: str = Field(description="the gap is shown as [MASK]")
    guesses: list[Guess] = Field(description="the likeliest first")

    @classmethod
    def of(cls, text: str, guesses: Iterable[tuple[str, float]]) -> "FilledSentence":
        """With these tokens and their probabilities, the likeliest first."""
        return cls(text=text, guesses=[Guess(token=token, probability=probability) for token, probability in guesses])


class Fills(Answer):
    """What the model of a global step puts into fixed sentences."""

    step: int
    time: float
    sentences: list[FilledSentence]


class Contributor(Answer):
    """One user, over all their devices."""

    user: str
    samples: int
    tokens: int
    hours: float = Field(description=HOURS)
    share: float = Field(description="fraction of the samples of all users")
    tokens_served: int = Field(0, description=SERVED)
    first_seen: float
    last_seen: float


class Leader(Contributor):
    """A user on the leaderboard."""

    sessions: int
    sessions_present: int


class SessionFigures(Answer):
    """What everybody may know of a session: its newest report, and what was counted for it."""

    user: str
    device: str
    client_mode: bool
    started: float
    last_seen: float
    present: bool
    left: bool
    pause: str | None = Field(None, description="why it computes nothing now, as its person wishes; empty if it does")
    step: int
    samples: int
    tokens: int
    samples_per_second: float
    averaging_rounds: int
    averaging_failures: int
    data_wait_fraction: float
    hosts_experts: bool = Field(False, description="and trains nothing")
    tokens_served: int = Field(0, description=SERVED)


class SessionSummary(SessionFigures):
    """A session and the peer that it is on."""

    session_id: str
    peer_id: str


class MachineSummary(Answer):
    """A machine of a user: its newest session, and the samples of all of them."""

    peer_id: str
    device: str
    last_seen: float
    present: bool
    pause: str | None
    samples_per_second: float
    samples: int


class UserDay(Answer):
    """What was counted for a user on a day (UTC)."""

    day: datetime.date
    samples: int
    tokens: int
    hours: float = Field(description=HOURS)
    share: float = Field(description="fraction of the samples of all users on that day")
    tokens_served: int = Field(0, description=SERVED)


class ReachedMilestone(Answer):
    """A round number that a user reached."""

    kind: Kind = Field(description="what it is a number of: samples, hours, or days in a row")
    number: int
    day: datetime.date = Field(description="UTC")


class DeviceCount(Answer):
    """Sessions on devices of one name."""

    device: str = Field(description="as the device names itself")
    sessions: int
    present: int
    samples: int
    samples_per_second: float = Field(description="counted for one such session, on average over the time it was there")


class ModeCount(Answer):
    """Sessions that accept connections, or those that do not."""

    sessions: int
    present: int
    samples: int


class CountryCount(Answer):
    """How many users said that they are in a country."""

    country: str = Field(description="ISO 3166, two letters")
    people: int


class KnownFlag(Answer):
    """The newest flag of a kind about a peer."""

    user: str
    peer_id: str
    kind: str
    what: str = Field(description="one line, to be read after the user's name")
    step: int
    times: int = Field(description="how often there was one")
    first: float
    last: float
