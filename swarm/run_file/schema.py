"""The run file: one YAML file that describes a whole run, validated to the last key."""

import unicodedata
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from swarm.errors import RunFileError
from swarm.hosts import is_name
from swarm.run_file.experts import ExpertsSection
from swarm.run_file.model import ModelSection
from swarm.run_file.release import ReleaseSection
from swarm.run_file.section import Count, DecayRate, Probability, Seconds, Section
from swarm.run_file.strict_yaml import read_yaml
from swarm.run_file.tls import TLSSection
from swarm.run_file.validation_messages import describe, shown

MASK = "[MASK]"  # how the gap in a probe is written
MOST_PROBES = 10
LONGEST_PROBE = 200  # characters


class TokenizerSection(Section):
    """The tokenizer of the run, and how to train it."""

    path: str = Field("tokenizer", description="folder beside the run file, or a Hub repository")
    vocab_size: Count = Field(32_000, ge=64, description="tokens, the special ones included")
    lowercase: bool = Field(False, description="fold upper case into lower case")
    max_documents: Count | None = Field(None, description="train on so many documents; all of them if absent")


class DataSource(Section):
    """Where documents come from: a Hub dataset or local files. Exactly one of `hub` and `path`."""

    hub: str | None = Field(None, description="a dataset on the Hub, as owner/name")
    config: str | None = Field(None, description="the dataset's configuration, as 20231101.bn")
    split: str = Field("train", description="the dataset's split")
    path: str | None = Field(
        None, description="a JSONL, Parquet or text file, or a folder of them; relative to the run file"
    )
    text_column: str = Field("text", description="the column or key that holds the text")
    weight: float = Field(1.0, gt=0, description="probability of drawing from this source, relative to the others")
    license: str | None = Field(None, description="of the text, as cc-by-sa-4.0; stands in the model card")

    @model_validator(mode="after")
    def one_place(self) -> "DataSource":
        """Documents lie on the Hub or on the disk."""
        if (self.hub is None) == (self.path is None):
            given = "neither" if self.hub is None else "both"
            raise ValueError(f"a data source must have exactly one of hub and path, got {given}")
        return self

    @property
    def name(self) -> str:
        """What messages call this source."""
        return self.hub if self.hub is not None else str(self.path)


class DataSection(Section):
    """The text of the run, and how it becomes samples."""

    train: Annotated[list[DataSource], Field(min_length=1)] = Field(description="sources of training documents")
    validation: list[DataSource] = Field(
        default_factory=list, description="sources of held-out documents; absent: no evaluation"
    )
    validation_samples: Count = Field(256, description="sentence pairs in the held-out evaluation")
    max_length: Count = Field(512, ge=16, description="tokens in a sample, special ones included")
    masked_fraction: float = Field(0.15, gt=0, lt=1, description="fraction of tokens that the model has to predict")
    max_ngram: int = Field(3, ge=1, le=8, description="longest span of tokens that is masked together")
    short_sample_probability: Probability = Field(0.1, description="fraction of samples made shorter on purpose")
    shuffle_buffer: Count = Field(10_000, description="documents in memory to shuffle a stream; fewer if they are long")


class OptimizerSection(Section):
    """How a global step changes the parameters, with linear warm-up and decay by global step."""

    name: Literal["lamb", "adamw", "muon"] = Field(
        "lamb",
        description="lamb for batches of thousands, as sahajBERT; adamw for small ones; muon for hidden matrices, "
        "adamw for the rest",
    )
    learning_rate: float = Field(1.76e-3, gt=0, description="peak learning rate; ALBERT's for a batch of 4096")
    warmup_steps: int = Field(5_000, ge=0, description="global steps of linear warm-up")
    total_steps: Count = Field(125_000, description="global steps until the learning rate has decayed to zero")
    betas: tuple[DecayRate, DecayRate] = Field(
        (0.9, 0.999), strict=False, description="decay rates of the averages of the gradient and its square"
    )
    epsilon: float = Field(1e-6, ge=1e-30, description="added to the denominator of Adam's update")
    weight_decay: float = Field(0.01, ge=0, description="decoupled (AdamW's); biases and layer norms have none")
    max_gradient_norm: float = Field(1.0, gt=0, description="the averaged gradient is scaled down to this norm")
    momentum: DecayRate = Field(0.95, description="decay rate of Muon's average of the gradient")

    @model_validator(mode="after")
    def warmup_fits(self) -> "OptimizerSection":
        """The warm-up ends before the learning rate has decayed to zero."""
        if self.warmup_steps >= self.total_steps:
            raise ValueError(f"warmup_steps must be below total_steps, got {self.warmup_steps} and {self.total_steps}")
        return self


class AveragingSection(Section):
    """How peers agree on one gradient (DeDLOC)."""

    target_batch_size: Count = Field(4096, description="samples of all peers in a global step")
    state_every: Count = Field(5, description="in small groups: global steps between two averages of the parameters")
    overlap: bool = Field(True, description="go on computing while gradients are averaged (one step of staleness)")
    compression: Literal["8bit", "float16", "none"] = Field("8bit", description="of gradients on the wire")
    snapshot_every: Count = Field(
        10, le=50, description="global steps between two snapshots of the log, from which newcomers begin"
    )
    target_group_size: int | None = Field(
        None, ge=2, description="peers that average together when there are more, a power of two; absent: all of them"
    )
    rounds_per_step: Annotated[int, Field(gt=0, le=64)] | None = Field(
        None, description="rounds of those groups in a global step; absent: as many as a full grid needs for the mean"
    )

    @model_validator(mode="after")
    def groups_fit(self) -> "AveragingSection":
        """Places in a group are whole bits of a key."""
        size = self.target_group_size
        if size is not None and size & (size - 1):
            raise ValueError(f"target_group_size must be a power of two, got {size}")
        if size is None and self.rounds_per_step is not None:
            raise ValueError(f"rounds_per_step needs target_group_size, got {self.rounds_per_step} without it")
        return self


class CoordinatorSection(Section):
    """What the coordinator does besides being the first peer."""

    listen: Annotated[list[str], Field(min_length=1)] = Field(
        default_factory=lambda: ["/ip4/0.0.0.0/tcp/31337"],
        description="addresses to listen on (libp2p multiaddr)",
    )
    announce: list[str] = Field(
        default_factory=list,
        description="addresses that others reach the coordinator by, if not those it listens on",
    )
    evaluate_every: Count = Field(10, description="global steps between two held-out evaluations")
    checkpoint_every: Count = Field(50, description="global steps between two checkpoints")
    keep_checkpoints: Count = Field(5, description="newest checkpoints to keep, beside the best by held-out loss")
    keep_every: Count | None = Field(
        None, description="global steps; keep the first checkpoint at or after each multiple of them for ever"
    )
    ledger: str = Field(
        "sqlite:///ledger.db", description="database URL; a relative SQLite path lies in the state folder"
    )
    wandb_project: str | None = Field(None, description="mirror figures to this Weights & Biases project")
    probes: Annotated[list[str], Field(max_length=MOST_PROBES)] = Field(
        default_factory=list,
        description="sentences with one [MASK] each; at every checkpoint it is shown what the model puts there",
    )

    @field_validator("probes")
    @classmethod
    def _one_mask_each(cls, probes: list[str]) -> list[str]:
        for text in probes:
            if text.count(MASK) != 1:
                raise ValueError(f"each sentence must have {MASK} in it exactly once, got {shown(text)}")
            # joiners are no printable characters either, and are part of words in many scripts
            if len(text) > LONGEST_PROBE or any(unicodedata.category(one) in ("Cc", "Zl", "Zp") for one in text):
                raise ValueError(
                    f"each sentence must be one line of {LONGEST_PROBE} letters at most, got {shown(text)}"
                )
        return probes


class AccessSection(Section):
    """Who may join, and where they ask for it. A coordinator refuses a run that admits nobody."""

    open: bool = Field(False, description="anybody, under a name of their choice that is shown as unverified")
    users: list[str] = Field(default_factory=list, description="these Hugging Face users")
    organizations: list[str] = Field(default_factory=list, description="members of these Hugging Face organizations")
    pass_lifetime: Seconds = Field(3600.0, description="seconds until a pass expires; it is renewed well before")
    host: str = Field("0.0.0.0", description="address of this machine at which the coordinator serves HTTP")
    port: int = Field(8080, ge=0, le=65535, description="TCP port of the coordinator's HTTP service; 0: a free one")
    url: str | None = Field(None, description="public URL of the HTTP service, where it differs from host and port")
    dashboard: str | None = Field(None, description="public URL of the dashboard, for volunteers to be told")
    tls: TLSSection | None = Field(
        None, description="HTTPS: `auto`, or a section with files or ports; needs an https `url`; absent: plain HTTP"
    )
    robust: Literal["off", "watch", "enforce"] = Field(
        "watch",
        description="gradients too large for their samples, where 5 or more users bring some: off, watch (show them) "
        "or enforce (scale them down, too)",
    )

    @model_validator(mode="after")
    def _certificate_has_a_name(self) -> "AccessSection":
        """A certificate is for the host of the public URL."""
        public = urlsplit(self.url or "")
        if self.tls is not None and not (public.scheme == "https" and is_name(public.hostname or "")):
            raise ValueError(
                f"tls needs url: https://NAME, with a name that leads to this machine, got {shown(self.url)}"
            )
        return self

    def admits_nobody(self) -> bool:
        """Whether no one could join."""
        return not (self.open or self.users or self.organizations)


class RunFile(Section):
    """A whole run."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,62}$",
        description="the run's name in lower case letters, digits and dashes (63 at most)",
    )
    description: str = Field("", description="what the run is for, in a sentence")
    language: str = Field("en", description="language code of the text, as in ISO 639")
    model: ModelSection = Field(default_factory=ModelSection)
    tokenizer: TokenizerSection = Field(default_factory=TokenizerSection)
    data: DataSection = Field(description="the text of the run")
    optimizer: OptimizerSection = Field(default_factory=OptimizerSection)
    averaging: AveragingSection = Field(default_factory=AveragingSection)
    coordinator: CoordinatorSection = Field(default_factory=CoordinatorSection)
    access: AccessSection = Field(default_factory=AccessSection, description="who may join")
    release: ReleaseSection | None = Field(None, description="where checkpoints are released; absent: nowhere")
    experts: ExpertsSection | None = Field(None, description="experts on machines of volunteers; absent: none")
    _folder: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="after")
    def _enforces_in_a_log(self) -> "RunFile":
        """Gradients that come from a group have no weight of their own."""
        if self.access.robust == "enforce" and self.averaging.target_group_size is not None:
            raise ValueError(
                "access.robust: enforce works without averaging.target_group_size only; leave one of them out"
            )
        return self

    @field_validator("access", mode="before")
    @classmethod
    def _empty_access(cls, given: object) -> object:
        """A section whose lines are all comments is one that admits nobody yet."""
        return {} if given is None else given

    @model_validator(mode="after")
    def experts_fit(self) -> "RunFile":
        """Gate, and the way to experts and back, are trained through the log, beside an ALBERT."""
        size, architecture = self.averaging.target_group_size, self.model.architecture
        if self.experts is not None and size is not None:
            raise ValueError(f"experts: not in small groups; remove experts or averaging.target_group_size ({size})")
        if self.experts is not None and architecture != "albert":
            raise ValueError(f"experts: with an ALBERT only; remove experts or model.architecture ({architecture})")
        return self

    @property
    def folder(self) -> Path:
        """Where relative paths of the run file start."""
        return self._folder

    def resolve(self, path: str) -> Path:
        """A path of the run file, made absolute."""
        return (self._folder / Path(path).expanduser()).resolve()


def load_run(path: Path) -> RunFile:
    """Read and validate a run file.

    Raises:
        RunFileError: one line that names file, key, value and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RunFileError(f"{path}: no such run file; `sahaj new` writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunFileError(f"{path}: cannot be read as a run file ({error})") from None
    try:
        content = read_yaml(text)
    except ValueError as error:
        raise RunFileError(f"{path}: not valid YAML ({error})") from None
    if not isinstance(content, dict):
        raise RunFileError(f"{path}: a run file is a mapping of keys to values, got {shown(content)}")
    return parse_run(content, path)


def parse_run(content: dict, path: Path) -> RunFile:
    """Validate the content of a run file that lies, or will lie, at `path`.

    Raises:
        RunFileError: as `load_run`.
    """
    try:
        run = RunFile.model_validate(content)
    except ValidationError as error:
        raise RunFileError(f"{path}: {describe(error, RunFile)}") from None
    run._folder = path.absolute().parent
    return run


def dump_run(run: RunFile) -> str:
    """The run file as YAML, defaults included, so that it stays true when defaults change."""
    return yaml.safe_dump(run.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
