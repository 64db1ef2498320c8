"""The coordinator's answers, as far as the pages read them. Times are unix seconds, losses are in nats."""

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Frozen: all readers share it."""

    model_config = ConfigDict(frozen=True)


class Access(Answer):
    """Who may join."""

    open: bool = False
    by_list: bool = False
    organizations: list[str] = []


class Run(Answer):
    """What the run is."""

    name: str
    description: str = ""
    language: str = ""
    access: Access = Access()
    max_length: int = 0
    architecture: str = "albert"
    model: dict[str, int | float] = {}
    join: str = ""
    one_line: str = ""
    program: str = ""
    notebook: str = ""
    notebook_at_hub: str = ""
    experts: int = 0


class LastHour(Answer):
    """How much the run has gained in about an hour, as the coordinator says; people present may be fewer."""

    seconds: float = 3600.0
    steps: int = 0
    samples: int = 0
    tokens: int = 0
    users_present: int = 0
    users_ever: int = 0
    hours: float = 0.0


class Progress(Answer):
    """Where the run is."""

    step: int
    total_steps: int
    samples: int
    tokens: int
    loss: float | None = None
    eval_loss: float | None = None
    unigram_loss: float | None = None
    below_unigram: float | None = None
    users_present: int
    paused: bool
    stopped: bool
    announcement: str
    step_samples: int = 0
    target_batch_size: int = 0
    users_ever: int | None = None
    hours: float | None = None
    finish: float | None = None
    last_hour: LastHour | None = None

    @property
    def finished(self) -> bool:
        """Whether the run needs no more contributions."""
        return self.stopped or self.step >= self.total_steps


class Step(Answer):
    """Some successive global steps; the number and the time are of the last one, samples those of a step on average."""

    step: int
    time: float
    loss: float | None = None
    samples: float = 0.0


class Evaluation(Answer):
    """A held-out evaluation."""

    step: int
    time: float
    loss: float
    unigram_loss: float | None = None
    loss_with_experts: float | None = None


class Minute(Answer):
    """How the swarm was in a while, on average; rounds and failures are those of that while."""

    time: float
    sessions: float = 0.0
    users: float = 0.0
    samples_per_second: float = 0.0
    tokens_per_second: float = 0.0
    averaging_rounds: int = 0
    averaging_failures: int = 0
    averaging_seconds: float | None = None


class Rate(Answer):
    """The learning rate planned for a global step."""

    step: int
    rate: float


class History(Answer):
    """The whole run in some hundred points."""

    steps: list[Step] = []
    evaluations: list[Evaluation] = []
    minutes: list[Minute] = []
    learning_rate: list[Rate] = []

    @property
    def unigram_loss(self) -> float | None:
        """The newest one that is known."""
        return next((one.unigram_loss for one in reversed(self.evaluations) if one.unigram_loss is not None), None)


class Guess(Answer):
    """What the model puts in a masked place, and how sure it is."""

    token: str
    probability: float


class Sentence(Answer):
    """A sentence with [MASK] in it, and the model's best guesses."""

    text: str
    guesses: list[Guess] = []


class Fill(Answer):
    """What the model of a checkpoint fills into the fixed sentences."""

    step: int
    sentences: list[Sentence] = []


class Checkpoint(Answer):
    """A checkpoint that the coordinator holds."""

    step: int
    eval_loss: float | None = None
    perplexity: float | None = None
    sentence_order_accuracy: float | None = None
    below_unigram: float | None = None
    saved_at: str = ""


class Leader(Answer):
    """One person over all devices."""

    user: str
    verified: bool = False
    avatar: str | None = None
    samples: int
    hours: float = 0.0
    share: float = 0.0
    tokens_served: int = 0
    sessions: int = 0
    sessions_present: int = 0
    first_seen: float | None = None
    last_seen: float


class Session(Answer):
    """One process of a person."""

    device: str
    started: float
    last_seen: float
    present: bool = False
    pause: str | None = None
    samples: int = 0


class Day(Answer):
    """A person's contribution on a day (UTC); the share is of all samples of that day."""

    day: str
    samples: int = 0
    share: float = 0.0


class Milestone(Answer):
    """A round number of samples, hours or days in a row that a person reached on a day (UTC)."""

    kind: str
    number: int
    day: str


class Person(Answer):
    """All about one person."""

    user: str
    verified: bool = False
    avatar: str | None = None
    rank: int | None = None
    samples: int
    hours: float = 0.0
    share: float = 0.0
    tokens_served: int = 0
    first_seen: float | None = None
    last_seen: float | None = None
    present: bool = False
    streak: int = 0
    longest_streak: int = 0
    milestones: list[Milestone] = []
    days: list[Day] = []
    sessions: list[Session] = []
    team: str | None = None


class Device(Answer):
    """Sessions on devices of one kind."""

    device: str
    sessions: int = 0
    present: int = 0
    samples: int = 0
    samples_per_second: float = 0.0


class Sessions(Answer):
    """How many, and what they did."""

    sessions: int = 0
    present: int = 0
    samples: int = 0


class Country(Answer):
    """People who said where they are; the country is a code of two letters."""

    country: str
    people: int


class Machines(Answer):
    """What the run is computed on."""

    devices: list[Device] = []
    kinds: int | None = None
    client_mode: Sessions = Sessions()
    reachable: Sessions = Sessions()
    countries: list[Country] = []


class Expert(Answer):
    """One expert of the grid: serving, standby (a copy alone), or none."""

    uid: list[int]
    health: str
    served_by: str | None = None
    copied_by: list[str] = []
    steps: int = 0


class Host(Answer):
    """A host of experts; its load is in seconds of work."""

    user: str
    serves: int = 0
    copies: int = 0
    load: float = 0.0
    leaves: bool = False


class Experts(Answer):
    """All experts of the run and their hosts, and the newest evaluation with experts and without."""

    hosts: list[Host] = []
    experts: list[Expert] = []
    losses: Evaluation | None = None


class Decisions(Answer):
    """What the organizer has decided."""

    banned: list[str] = []
    announcement: str = ""
    paused: bool = False
    stopped: bool = False


class Flag(Answer):
    """Something odd that a peer did; for the organizer alone."""

    user: str = ""
    peer_id: str = ""
    kind: str = ""
    what: str = ""
    step: int | None = None
    times: int = 1
    last: float | None = None
