"""The values of a run file that follow from the size of the model, the batch and the number of global steps.

Two recipes. *Muon* is that of the small runs that were measured here (`runs/demo.yaml`, `runs/bengali-hour.yaml`,
docs/results.md, docs/benchmarks.md). *LAMB* is ALBERT's (Lan et al. 2020) in the numbers of sahajBERT
(`runs/bengali.yaml`); the learning rate follows the root of the batch (You et al. 2020, table 4).
"""

import math
from dataclasses import dataclass

from app.new.writing import Section, Setting

FEW_STEPS = 200  # in which a higher rate and shorter averages teach more: the demo has 160
WARM_UP = 0.04  # of the steps: 5,000 of 125,000 (ALBERT), 40 of 1,500 and 20 of 240 here
MUON_RATE, MUON_RATE_OF_FEW = 8e-3, 1.2e-2  # measured 128 wide
MUON_WIDTH = 128
LAMB_RATE, LAMB_BATCH = 1.76e-3, 4096
EVALUATE_SECONDS, CHECKPOINT_SECONDS = 600.0, 3600.0  # between two of them, at most
EVALUATIONS, CHECKPOINTS = 20, 10  # of a run, at least
SHORTEST_SAMPLE = 64  # tokens


@dataclass(frozen=True)
class Recipe:
    """How a model of some size is taught."""

    optimizer: str
    batches: tuple[int, ...]  # samples in a global step that may be chosen
    measured_batch: int  # up to which it was measured
    masked_fraction: float
    max_ngram: int


MUON = Recipe("muon", (320, 640, 1280, 2560), 640, masked_fraction=0.3, max_ngram=1)
LAMB = Recipe("lamb", (1024, 2048, 4096, 8192), 4096, masked_fraction=0.15, max_ngram=3)


@dataclass(frozen=True)
class Size:
    """A shape of ALBERT that may be chosen. Of ModernBERTs no recipe was measured."""

    width: int
    layers: int
    heads: int
    longest_sample: int  # tokens
    recipe: Recipe

    @property
    def parameters(self) -> int:
        """That a token passes through, a shared layer counted each time: what computing costs and learning fills."""
        return 12 * self.width**2 * self.layers


SIZES = (
    Size(128, 2, 4, 64, MUON),
    Size(192, 2, 4, 64, MUON),
    Size(256, 6, 8, 128, MUON),
    Size(512, 12, 8, 128, MUON),
    Size(768, 12, 12, 256, LAMB),
    Size(1024, 24, 16, 512, LAMB),
)


@dataclass(frozen=True)
class Course:
    """What a run computes."""

    size: Size
    max_length: int  # tokens of a sample
    vocabulary: int  # tokens
    batch: int  # samples in a global step
    steps: int
    samples_per_second: float  # of all volunteers together
    limit: str  # what it ends for: "text", "days" or "steps"

    @property
    def samples(self) -> int:
        """Of the whole run."""
        return self.batch * self.steps

    @property
    def tokens(self) -> int:
        """That the model reads, masked ones included."""
        return self.samples * self.max_length

    @property
    def step_seconds(self) -> float:
        """Of a global step."""
        return self.batch / self.samples_per_second

    @property
    def days(self) -> float:
        """Of the whole run, without stops."""
        return self.steps * self.step_seconds / 86_400

    @property
    def duration(self) -> str:
        """The same for people."""
        return f"{self.days:,.1f} days" if self.days >= 1 else f"{self.days * 24:,.1f} hours"


def learning_rate(size: Size, batch: int, steps: int) -> float:
    """The peak learning rate, with two digits.

    Muon's steps have the size of Adam's (Liu et al. 2025, section 2.2), so their spectral norm grows with the root of
    the width; the rate falls as fast, which keeps what a step does to activations (Yang et al. 2023, condition 1).
    """
    if size.recipe is LAMB:
        rate = LAMB_RATE * math.sqrt(batch / LAMB_BATCH)
    else:
        rate = (MUON_RATE_OF_FEW if steps <= FEW_STEPS else MUON_RATE) * math.sqrt(MUON_WIDTH / size.width)
    return float(f"{rate:.2g}" if size.recipe is MUON else f"{rate:.3g}")


def sample_length(size: Size, tokens_per_document: float) -> int:
    """Tokens of a sample: the smallest power of two that holds an average document, within the size's bounds."""
    whole = 2 ** math.ceil(math.log2(max(1.0, tokens_per_document)))
    return min(size.longest_sample, max(SHORTEST_SAMPLE, whole))


def settings(course: Course, why_size: str, why_steps: str) -> dict[str, Section]:
    """The sections that follow from a course; those of `data` lack the sources."""
    return {
        "model": _model(course, why_size),
        "tokenizer": _tokenizer(course),
        "data": _data(course),
        "optimizer": _optimizer(course, why_steps),
        "averaging": _averaging(course),
        "coordinator": _coordinator(course),
    }


def _model(course: Course, why: str) -> Section:
    size = course.size
    small = size.recipe is MUON
    began = round(0.08 * math.sqrt(MUON_WIDTH / size.width), 3) if small else 0.02
    entries = {
        "hidden_size": Setting(size.width, why),
        "num_hidden_layers": Setting(size.layers, "all have the same weights, so depth costs time and no traffic"),
        "num_attention_heads": Setting(size.heads, f"each {size.width // size.heads} wide"),
        "intermediate_size": Setting(4 * size.width, "four times hidden_size, as in ALBERT"),
        "embedding_size": Setting(128, "ALBERT's at all widths (Lan et al. 2020, table 3)"),
        "initializer_range": Setting(began, _from_measured("0.08", size) if small else "ALBERT's"),
    }
    return Section(f"ALBERT, {size.parameters / 1e6:,.1f} million parameters with each use of a layer counted", entries)


def _tokenizer(course: Course) -> Section:
    entries = {
        "path": Setting("tokenizer", "`sahaj tokenizer train` writes it there"),
        "vocab_size": Setting(course.vocabulary, "with more, many tokens of this text are too rare to be learned"),
        "max_documents": Setting(200_000, "a sample is enough: more text changes few tokens and costs memory"),
    }
    return Section("a Unigram tokenizer of the run's own text", entries)


def _data(course: Course) -> Section:
    recipe = course.size.recipe
    if recipe is MUON:
        masked, ngram = "measured: it teaches more in each sample than 0.15", "measured: a gap of one token is easier"
    else:
        masked = ngram = "as in ALBERT and sahajBERT"
    entries = {
        "validation_samples": Setting(512, "the loss of so many is exact enough to see progress"),
        "max_length": Setting(
            course.max_length,
            "as long as documents are"
            if course.max_length < course.size.longest_sample
            else f"of a model {course.size.width} wide; longer samples cost more than they teach it",
        ),
        "masked_fraction": Setting(recipe.masked_fraction, masked),
        "max_ngram": Setting(recipe.max_ngram, ngram),
        "shuffle_buffer": Setting(10_000, "documents in memory; peers draw from them in orders of their own"),
    }
    return Section("the text, and how it becomes samples", entries)


def _optimizer(course: Course, why_steps: str) -> Section:
    size, few = course.size, course.steps <= FEW_STEPS
    rate = learning_rate(size, course.batch, course.steps)
    if size.recipe is LAMB:
        name = Setting("lamb", "sahajBERT's; Muon's exact step takes a core 0.9 s at 512 wide, and more here")
        why_rate = "ALBERT's 1.76e-3 for a batch of 4,096, times the root of the batch's ratio"
        betas = Setting([0.9, 0.999], "as in ALBERT")
        momentum: dict[str, Setting] = {}
    else:
        name = Setting("muon", "measured: it learns most from few steps")
        why_rate = _from_measured("1.2e-2" if few else "8e-3", size)
        betas = Setting([0.9, 0.95] if few else [0.9, 0.98], "Adam's, for all that is not a hidden matrix; as measured")
        momentum = {"momentum": Setting(0.9 if few else 0.95, "Muon's; as measured")}
    entries = {
        "name": name,
        "learning_rate": Setting(rate, why_rate),
        "betas": betas,
        **momentum,
        "warmup_steps": Setting(max(5, round(WARM_UP * course.steps)), "a twenty-fifth of the steps, as in ALBERT"),
        "total_steps": Setting(course.steps, why_steps),
    }
    return Section("linear warm-up, then linear decay to zero at the last step", entries)


def _from_measured(value: str, size: Size) -> str:
    if size.width == MUON_WIDTH:
        return "measured at this width"
    return f"{value} was measured {MUON_WIDTH} wide; it falls with the root of the width"


def _averaging(course: Course) -> Section:
    recipe, batch = course.size.recipe, course.batch
    why = "the smallest for which there is time: small steps teach more"
    if batch > recipe.measured_batch:
        why += f"; beyond the measured {recipe.measured_batch:,}"
    small = recipe is MUON
    entries = {
        "target_batch_size": Setting(batch, why),
        "overlap": Setting(True, "volunteers compute while gradients travel; they are one step old then"),
        "compression": Setting(
            "float16" if small else "8bit",
            "8 bits round small gradients to nothing, which Adam would notice"
            if small
            else "half the bytes of float16",
        ),
    }
    return Section(f"a global step takes some {course.step_seconds:,.0f} seconds", entries)


def _coordinator(course: Course) -> Section:
    def every(seconds: float, least: int) -> int:
        return max(1, min(round(seconds / course.step_seconds), course.steps // least))

    entries = {
        "evaluate_every": Setting(every(EVALUATE_SECONDS, EVALUATIONS), "ten minutes, or a twentieth of the run"),
        "checkpoint_every": Setting(every(CHECKPOINT_SECONDS, CHECKPOINTS), "an hour, or a tenth of the run"),
    }
    return Section("the first peer: it keeps the ledger and the checkpoints", entries)
