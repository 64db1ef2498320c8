"""The JSON that everybody may read. Of people it has the name and the avatar, nothing else."""

from pydantic import Field

from coordinator.ledger.answers import BELOW_UNIGRAM, UNIGRAM_LOSS, Answer, EvaluationRecord, Progress, StepSummary
from swarm.access.join_messages import TokenizerFile


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
    access: AccessAnswer
    total_steps: int
    target_batch_size: int = Field(description="samples in a global step")
    max_length: int = Field(description="tokens in a sample")
    evaluate_every: int = Field(description="global steps between two held-out evaluations")
    checkpoint_every: int = Field(description="global steps between two checkpoints")
    model: dict[str, int | float]
    tokenizer: list[TokenizerFile] = Field(description="served at /api/tokenizer/<name>")
    probes: list[str] = Field(description="sentences with a [MASK]; /api/fills tells what the model puts there")
    join: str = Field(description="the command to join the run with")
    notebook: str = Field(description="address of a notebook that joins the run; empty if it is not known")
    notebook_at_hub: str = Field(description="where it lies for Colab to open; empty while no release carries it")


class LastHourAnswer(Answer):
    """What has changed over the last hour, or since the run's history began if that is shorter."""

    seconds: float = Field(description="for how long: an hour at most")
    steps: int = Field(description="global steps that were counted")
    samples: int
    tokens: int
    users_present: int = Field(description="now, less those of then; may be negative")
    users_ever: int
    hours: float = Field(description="compute time given")


class ProgressAnswer(Progress):
    """Where the run is; `step` is the global step now."""

    total_steps: int
    step_samples: int = Field(description="samples of all peers towards the global step that is being worked on")
    target_batch_size: int = Field(description="samples in a global step")
    started: float | None = Field(description="when the first global step was counted")
    finish: float | None = Field(
        description="when the last global step is expected, at the pace of the last hour; unknown before there is "
        "one, and while the run is paused, stopped or finished"
    )
    users_ever: int
    sessions_ever: int
    hours: float = Field(description="compute time given, added up over sessions")
    last_hour: LastHourAnswer | None = Field(description="none before the first minute of history")
    paused: bool
    stopped: bool
    announcement: str
    steps: list[StepSummary] = Field(description="the newest global steps, in order")
    evaluations: list[EvaluationRecord] = Field(description="in order; of very many some, the newest among them")


class CheckpointAnswer(Answer):
    """A whole checkpoint that the coordinator holds."""

    step: int
    samples: int
    eval_loss: float | None = Field(description="held-out masked-LM loss, nats")
    perplexity: float | None
    sentence_order_accuracy: float | None
    unigram_loss: float | None = Field(description=UNIGRAM_LOSS)
    below_unigram: float | None = Field(description=BELOW_UNIGRAM)
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

    status: str = Field(description="ok, or what is wrong")
    step: int
