"""Chooses model, batch and number of steps from the text, the speed of all volunteers, and the days that they have.

The largest model of `SIZES` is taken that gets enough to read: `PREDICTED` tokens to predict for each parameter that a
token passes through. Hoffmann et al. 2022 find 20 for models that predict each token; a masked model predicts the
masked ones. The hour of docs/results.md had 21 for each (30 % masked), the demo has 1.5. Text may be read `PASSES`
times, as often as in that hour.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.new.recipe import SIZES, Course, Size, sample_length, settings
from app.new.writing import Section, content
from swarm.errors import SahajError
from swarm.run_file import RunFile, parse_run

PREDICTED = 20
PASSES = 100
DAY = 86_400.0  # seconds
USED = 0.8  # of the time: some volunteers come late, some rounds fail
SHORTEST_STEP = 2.0  # seconds, over the Internet; between peers on one machine half a second is enough
ENOUGH = 0.8  # of what the largest batch could compute
FEWEST_STEPS, MOST_STEPS = 80, 125_000  # half of the demo; of ALBERT and sahajBERT
VOCABULARIES = (32_000, 16_000, 8_000, 4_000, 2_000)
CHARACTERS = 0.03  # for the square of the vocabulary: 1.9 million for 8,000 tokens, 31 million for 32,000
ALPHABETS = 4  # a vocabulary has at least so many times the characters of the text

Speed = Callable[[RunFile], float]  # samples a second of all volunteers with the run's model, batch and averaging


class SizingError(SahajError):
    """No run fits what was given."""

    exit_status = 2


@dataclass(frozen=True)
class Text:
    """What is known of a run's text. Infinite tokens: so much text that it is no limit."""

    vocabulary: int
    tokens: float
    tokens_per_document: float
    tokens_per_word: float


@dataclass(frozen=True)
class Choice:
    """The run that was chosen, and what was in the way of a larger model."""

    course: Course
    larger: Course | None  # that of the next larger model, which gets too little to read; None: there is no larger one

    def settings(self) -> dict[str, Section]:
        """The run file's sections with a reason for each value; those of `data` lack the sources."""
        return settings(self.course, self.why_size(), self._why_steps())

    def why_size(self) -> str:
        """What stood in the way of a larger model."""
        if self.larger is None:
            return "ALBERT-large, the largest here"
        needed, read = tokens_needed(self.larger), self.larger.tokens
        why = f"hidden size {self.larger.size.width} would need {amount(needed)} tokens, "
        if self.larger.limit == "text":
            return f"{why}but this text gives {amount(read)} in {PASSES} passes"
        return f"{why}but these volunteers can process {amount(read)}"

    def _why_steps(self) -> str:
        course = self.course
        why = f"{course.samples:,} samples take all volunteers {course.duration}"
        ends = {
            "text": f"; this text {PASSES} times",
            "days": "; a fifth of the time is kept in reserve",
            "steps": "; as many steps as ALBERT's",
        }
        return why + ends[course.limit]


def choose(text: Text, speed: Speed, days: float) -> Choice:
    """The run for a text and volunteers.

    Raises:
        SizingError: nobody can average, or the smallest model would have too few steps.
    """
    larger = None
    for size in reversed(SIZES):
        course = best_course(size, text, speed, days)
        if size is SIZES[0] or course.tokens >= tokens_needed(course):
            break
        larger = course
    if course.steps < FEWEST_STEPS:
        given = f"these volunteers compute only {course.samples:,} samples in {days:g} days"
        way_out = "allow more days or add machines"
        if course.limit == "text":
            given = f"{amount(text.tokens)} tokens of text give only {course.samples:,} samples in {PASSES} passes"
            way_out = "add text"
        raise SizingError(f"{given}; the smallest model needs {FEWEST_STEPS * course.batch:,}: {way_out}")
    return Choice(course, larger)


def tokens_needed(course: Course) -> float:
    """To read, for the model of a course."""
    return PREDICTED / course.size.recipe.masked_fraction * course.size.parameters


def best_course(size: Size, text: Text, speed: Speed, days: float) -> Course:
    """The course with the smallest batch that reads nearly as much in the days: small steps teach more for each sample.

    Raises:
        SizingError: nobody can average.
    """
    courses = [_course(size, batch, text, speed, days) for batch in size.recipe.batches]
    courses = [course for course in courses if course.steps >= FEWEST_STEPS] or courses[:1]
    most = max(course.samples for course in courses)
    return next(course for course in courses if course.samples >= ENOUGH * most)


def _course(size: Size, batch: int, text: Text, speed: Speed, days: float) -> Course:
    length = sample_length(size, text.tokens_per_document)
    outline = Course(size, length, text.vocabulary, batch, MOST_STEPS, samples_per_second=1.0, limit="steps")
    rate = min(speed(run_of(outline)), batch / SHORTEST_STEP)
    if rate <= 0.0:
        raise SizingError(
            "no volunteer could average: one that others can reach must be there all day, such as the coordinator"
        )
    steps = {
        "text": PASSES * text.tokens / length / batch,
        "days": rate * days * DAY * USED / batch,
        "steps": float(MOST_STEPS),
    }
    limit = min(steps, key=lambda name: steps[name])
    return Course(size, length, text.vocabulary, batch, max(1, math.floor(steps[limit])), rate, limit)


def run_of(course: Course) -> RunFile:
    """A run file with the settings of a course and no text, for forecasts."""
    made = content(settings(course, "", ""))
    made["data"] = {"train": [{"path": "train.jsonl"}], **made["data"]}
    return parse_run({"name": "run", **made}, Path("run.yaml"))


def vocabulary_for(characters: float, alphabet: int) -> int:
    """Tokens of the vocabulary for a text of so many characters, of which `alphabet` are different and not rare."""
    fitting = (size for size in VOCABULARIES if CHARACTERS * size**2 <= characters)
    least = min((size for size in VOCABULARIES if size >= ALPHABETS * alphabet), default=VOCABULARIES[0])
    return max(next(fitting, VOCABULARIES[-1]), least)


def amount(number: float) -> str:
    """A number for people, rounded to two digits: 320 million."""
    for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{float(f'{number / size:.2g}'):g} {name}"
    return f"{float(f'{number:.2g}'):,.0f}"
