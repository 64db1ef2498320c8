"""The JSON that everybody may read. Of people it holds the name and the avatar, nothing else."""

from enum import Enum

from pydantic import BaseModel, ConfigDict, Field

from swarm.joining import TokenizerFile


class Answer(BaseModel):
    """Times are unix seconds, losses are in nats."""

    model_config = ConfigDict(frozen=True)


class AccessAnswer(Answer):
    """Who may join."""

    open: bool = Field(description="anybody, under a name of their choice")
    by_list: bool = Field(description="Hugging Face users on a list that the organizer keeps")
    organizations: list[str] = Field(description="members of these Hugging Face organizations")


class RunAnswer(Answer):
    """What the run is; it does not change while the coordinator runs."""

    name: str
    description: str
    language: str
    version: str = Field(description="of the program")
    fingerprint: str
    access: AccessAnswer | None = Field(description="absent: whoever knows an address")
    total_steps: int
    target_batch_size: int = Field(description="samples in a global step")
    max_length: int = Field(description="tokens in a sample")
    evaluate_every: int = Field(description="global steps between two held-out evaluations")
    checkpoint_every: int = Field(description="global steps between two checkpoints")
    model: dict[str, int | float]
    tokenizer: list[TokenizerFile] = Field(description="served at /api/tokenizer/<name>")


class StepAnswer(Answer):
    """One global step over all its peers."""

    step: int
    samples: int
    tokens: int
    peers: int
    loss: float


class EvaluationAnswer(Answer):
    """A held-out evaluation."""

    step: int
    loss: float
    sentence_order_loss: float
    samples: int
    time: float


class ProgressAnswer(Answer):
    """Where the run is."""

    step: int = Field(description="global step now")
    total_steps: int
    samples: int
    tokens: int
    loss: float | None
    eval_step: int | None
    eval_loss: float | None
    sessions_present: int
    users_present: int
    samples_per_second: float
    paused: bool
    stopped: bool
    announcement: str
    steps: list[StepAnswer] = Field(description="the newest global steps, in order")
    evaluations: list[EvaluationAnswer] = Field(description="the newest evaluations, in order")


class Period(str, Enum):
    """A time for which there is a leaderboard."""

    DAY = "day"
    WEEK = "week"
    RUN = "run"


class LeaderAnswer(Answer):
    """One user over all their devices."""

    user: str
    verified: bool = Field(description="whether the Hugging Face Hub says that this is the person")
    avatar: str | None = Field(description="URL, where it is known")
    samples: int
    tokens: int
    hours: float = Field(description="of presence, added up over devices")
    share: float = Field(description="fraction of the samples of all users")
    sessions: int
    sessions_present: int
    first_seen: float
    last_seen: float


class SessionAnswer(Answer):
    """One process of one user. `session` tells sessions apart and says nothing about the peer."""

    session: str
    user: str
    verified: bool
    avatar: str | None
    device: str
    client_mode: bool
    started: float
    last_seen: float
    present: bool
    left: bool
    step: int
    samples: int
    tokens: int
    samples_per_second: float
    averaging_rounds: int
    averaging_failures: int
    data_wait_fraction: float


class CheckpointAnswer(Answer):
    """A whole checkpoint that the coordinator holds."""

    step: int
    samples: int
    eval_loss: float | None = Field(description="held-out masked-LM loss, nats")
    perplexity: float | None
    sentence_order_accuracy: float | None
    saved_at: str = Field(description="ISO 8601")
    fingerprint: str
    software: str


class NoticesAnswer(Answer):
    """What the organizer decided; `signed` is what peers check and pass on."""

    signed: str = Field(description="base64")
    announcement: str
    paused: bool
    stopped: bool


class HealthAnswer(Answer):
    """A sign of life."""

    status: str
    step: int
