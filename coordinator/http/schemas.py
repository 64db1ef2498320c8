"""The JSON that the routes answer with. Of people it has the name and the avatar, nothing else."""

import math
from enum import Enum

from pydantic import BaseModel, Field, computed_field

from coordinator.evaluation.evaluator import perplexity
from coordinator.ledger.answers import (
    BELOW_UNIGRAM,
    UNIGRAM_LOSS,
    Answer,
    Contributor,
    CountryCount,
    DeviceCount,
    EvaluationRecord,
    Leader,
    ModeCount,
    Progress,
    ReachedMilestone,
    SessionFigures,
    Span,
    StepBucket,
    StepSummary,
    UserDay,
)
from coordinator.ledger.teams.answers import Membership, TeamDay, TeamPerson, TeamSummary
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
    architecture: str = Field(description="of the model: albert or modernbert")
    model: dict[str, int | float]
    tokenizer: list[TokenizerFile] = Field(description="served at /api/tokenizer/<name>")
    experts: int = Field(description="for which the run's grid has room; 0 in a run without experts")
    probes: list[str] = Field(description="sentences with a [MASK]; /api/fills tells what the model puts there")
    dashboard: str = Field(description="where its pages are; empty if it is not known")
    join: str = Field(description="the command to join the run with")
    one_line: str = Field(description="what installs the program and joins, for a shell; empty if it is not known")
    program: str = Field(description="address of the program, a wheel for pip, pipx or uv; empty if it is not known")
    notebook: str = Field(description="address of a notebook that joins the run; empty if it is not known")
    notebook_at_hub: str = Field(description="where it lies for Colab to open; empty while no release carries it")


class LastHourAnswer(Answer):
    """What has changed over the last hour: over less if the run is younger, over more after an outage."""

    seconds: float = Field(description="for how long")
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
        "one, and while the run is stopped or finished"
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


class ExpertHealth(str, Enum):
    """Whether an expert can be called."""

    SERVING = "serving"
    STANDBY = "standby"  # nobody serves it now, and a host has a copy
    NONE = "none"  # no host has it


class ExpertAnswer(Answer):
    """One expert."""

    uid: list[int] = Field(description="its place in the grid")
    health: ExpertHealth
    served_by: str | None = Field(description="user whose host serves it")
    copied_by: list[str] = Field(description="users whose hosts keep a copy")
    steps: int = Field(description="that it has taken, as the host says that serves it, or has the newest copy")


class HostAnswer(Answer):
    """A host of experts, as it says itself."""

    user: str
    verified: bool = Field(description="whether the Hugging Face Hub says that this is the person")
    serves: int = Field(description="experts")
    copies: int = Field(description="of other hosts' experts")
    load: float = Field(description="seconds of work that wait")
    leaves: bool = Field(description="it computes no more, and hands over")


class ExpertsAnswer(Answer):
    """Experts on volunteers' machines; the grid is empty in a run without them."""

    grid: list[int] = Field(description="sizes of its dimensions")
    experts_of_a_row: int = Field(description="experts that are called for each token, at most")
    hosts: list[HostAnswer]
    experts: list[ExpertAnswer] = Field(description="all of the grid")
    losses: EvaluationRecord | None = Field(description="the newest evaluation with experts and of the trunk alone")


class Period(str, Enum):
    """A time for which there is a leaderboard."""

    DAY = "day"
    WEEK = "week"
    RUN = "run"


class Profile(BaseModel):
    """What is shown beside a name."""

    verified: bool = Field(description="whether the Hugging Face Hub says that this is the person")
    avatar: str | None = Field(description="URL, where it is known")


class LeaderAnswer(Leader, Profile):
    """One user over all their devices."""


class SessionAnswer(SessionFigures, Profile):
    """One process of one user."""

    session: str = Field(description="tells sessions apart and says nothing about the peer")


class PersonAnswer(Contributor, Profile):
    """One user, over all their devices, with their days and sessions."""

    rank: int = Field(description="on the leaderboard of the whole run, the first being 1")
    present: bool
    streak: int = Field(description="days in a row (UTC) on which they gave something, until today or yesterday")
    longest_streak: int
    milestones: list[ReachedMilestone] = Field(description="in the order in which they were reached")
    days: list[UserDay] = Field(description="in order; those on which nothing was counted are left out")
    sessions: list[SessionAnswer] = Field(description="by their newest reports, the newest first")
    team: str | None = Field(description="that they are in now")


class TeamPersonAnswer(TeamPerson, Profile):
    """Somebody who is in a team, or has given something to it."""


class TeamAnswer(TeamSummary):
    """One team, with its people and its days."""

    rank: int = Field(description="on the board of the whole run, the first being 1")
    people: list[TeamPersonAnswer] = Field(description="those who gave most first")
    days: list[TeamDay] = Field(description="in order; those on which nothing was counted are left out")


class MyTeamAnswer(Answer):
    """The team of a key's holder."""

    user: str
    team: Membership | None


class MachinesAnswer(Answer):
    """What the run is computed on; nothing in it tells whose it is."""

    devices: list[DeviceCount] = Field(description="of very many kinds those that contributed most, in this order")
    kinds: int = Field(description="of devices")
    client_mode: ModeCount = Field(description="sessions that accept no connections, as behind a firewall")
    reachable: ModeCount
    countries: list[CountryCount] = Field(description="of users who gave theirs, those with most users first")


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
