"""Fine-tunes models on the same data in the same way, several seeds each, and measures them on the same test split."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version

from rich.console import Console
from transformers import PreTrainedModel

from downstream.data.examples import TaskData
from downstream.data.loading import TEST, TRAIN, VALIDATION, seen_in_training, warnings_about_labels
from downstream.errors import ModelError
from downstream.heads import Reader, finished, label_names, new_head, open_reader
from downstream.models import Model
from downstream.progress import FineTuningProgress
from downstream.report.results import (
    AS_IT_IS,
    FINE_TUNED,
    FROM_SCRATCH,
    WITH_EXPERTS,
    ModelResult,
    Results,
    SeedResult,
    SplitSummary,
)
from downstream.tasks.task import Encoded, Scores, Task
from downstream.training import Settings, fit, predict
from downstream.with_experts import count_parameters, files_of_experts
from swarm.errors import is_memory_full
from swarm.logging.logs import silence_hugging_face
from swarm.version import program_version


@dataclass(frozen=True)
class Candidate:
    """A model of the comparison, and what is to be done with it: one of the four in `results`."""

    model: Model
    how: str


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned model, for callers that save it."""

    model: PreTrainedModel
    reader: Reader
    result: SeedResult


class Comparison:
    """Measures models on the data of one task, one after the other."""

    def __init__(self, task: Task, data: TaskData, settings: Settings, console: Console | None = None) -> None:
        """Check the labels of the data and report what is odd about them.

        Raises:
            DataError: no label of validation or test occurs in training, or training has only one.
        """
        silence_hugging_face()
        self._task, self._data, self._settings = task, data, settings
        self._progress = FineTuningProgress(console, task.scores[0])
        self.labels: tuple[str, ...] = ()
        warnings: list[str] = []
        if data.train is not None:
            self.labels = task.labels(data.train)
            warnings = warnings_about_labels(self.labels, data.splits[1:], data.train.source)
        self._results: list[ModelResult] = []
        self._report_data(warnings)

    def check(self, candidates: Sequence[Candidate]) -> None:
        """Find out what is wrong with any of the models before the first one takes hours.

        Raises:
            ModelError: one cannot be used for the task.
            DataError: the data has no label that a finished model knows.
        """
        for candidate in candidates:
            open_reader(candidate.model, self._settings.max_length)
            if candidate.how == AS_IT_IS:
                known = self._task.predictable(label_names(finished(candidate.model, self._task)).values())
                for line in warnings_about_labels(known, (self._data.test,), candidate.model.name):
                    self._progress.say(line)

    def add(self, candidate: Candidate) -> Tuned | None:
        """Measure a model; returns the seed that validates best, or None for a model that is not fine-tuned here.

        Raises:
            ModelError: it cannot be used for the task, or does not fit into memory.
        """
        try:
            if candidate.how != AS_IT_IS:
                return self._fine_tune(candidate)
            self._measure_as_it_is(candidate)
        except RuntimeError as error:
            if not is_memory_full(error):
                raise
            raise ModelError(
                f"{candidate.model.name}: --batch-size {self._settings.batch_size} does not fit into the GPU's memory; "
                "give a smaller --batch-size or --max-length"
            ) from None
        return None

    def results(self) -> Results:
        """All models so far."""
        return Results(
            task=self._task.name,
            scores=self._task.scores,
            labels=self.labels,
            data={
                split.name: SplitSummary(split.source, len(split.examples), split.left_out)
                for split in self._data.splits
            },
            test_examples_seen_in_training=seen_in_training(self._data),
            settings=asdict(self._settings) if self._data.train is not None else {},
            software={"sahaj": program_version()}
            | {name: version(name) for name in ("torch", "transformers")}
            | {"python": platform.python_version()},
            models=tuple(self._results),
        )

    def _fine_tune(self, candidate: Candidate) -> Tuned:
        reader = open_reader(candidate.model, self._settings.max_length)
        encoded = self._encode(reader)
        rates = self._settings.learning_rates
        first = [self._one_seed(candidate, reader, encoded, rate, 1) for rate in rates]
        kept = best_of(first, self._task.scores[0])
        runs = [kept.result]
        rate = kept.result.learning_rate
        assert rate is not None, "it was just fine-tuned with one"
        for seed in range(2, self._settings.seeds + 1):
            tuned = self._one_seed(candidate, reader, encoded, rate, seed)
            runs.append(tuned.result)
            kept = best_of([kept, tuned], self._task.scores[0])
        self._record(candidate, kept.model, encoded, runs)
        return kept

    def _one_seed(
        self, candidate: Candidate, reader: Reader, encoded: dict[str, Encoded], rate: float, seed: int
    ) -> Tuned:
        task = self._task
        model = new_head(
            candidate.model,
            task,
            self.labels,
            seed,
            dropout=self._settings.dropout,
            from_scratch=candidate.how == FROM_SCRATCH,
            with_experts=candidate.how == WITH_EXPERTS,
        )
        title = f"{candidate.model.name}, {candidate.how}, seed {seed}" + (
            f", rate {rate:g}" if len(self._settings.learning_rates) > 1 else ""
        )
        splits = encoded[TRAIN], encoded[VALIDATION]
        with self._progress.running(title) as callback:
            fitted = fit(
                model, task, reader, *splits, self._settings, learning_rate=rate, seed=seed, callbacks=[callback]
            )
        test = self._test(model, reader, encoded[TEST])
        seconds = round(fitted.seconds, 1)
        result = SeedResult(test, fitted.validation, seed, rate, len(fitted.epochs), fitted.best, seconds)
        score = task.scores[0]
        self._progress.say(
            f"{title}: {score} {fitted.validation[score]:.1%} on validation, {test[score]:.1%} on test "
            f"(epoch {fitted.best} of {len(fitted.epochs)}, {fitted.seconds:.0f} s)"
        )
        return Tuned(model, reader, result)

    def _measure_as_it_is(self, candidate: Candidate) -> None:
        reader = open_reader(candidate.model, self._settings.max_length)
        model = finished(candidate.model, self._task)
        encoded = {TEST: self._task.encode(self._data.test.examples, reader.tokenizer, reader.max_length)}
        test, score = self._test(model, reader, encoded[TEST]), self._task.scores[0]
        self._record(candidate, model, encoded, [SeedResult(test)])
        self._progress.say(f"{candidate.model.name}, {candidate.how}: {score} {test[score]:.1%}")

    def _test(self, model: PreTrainedModel, reader: Reader, encoded: Encoded) -> Scores:
        return self._task.score(encoded.truth, predict(model, self._task, reader, encoded, self._settings.batch_size))

    def _encode(self, reader: Reader) -> dict[str, Encoded]:
        numbers = {label: number for number, label in enumerate(self.labels)}
        return {
            split.name: self._task.encode(split.examples, reader.tokenizer, reader.max_length, numbers)
            for split in self._data.splits
        }

    def _record(
        self, candidate: Candidate, model: PreTrainedModel, encoded: dict[str, Encoded], runs: Sequence[SeedResult]
    ) -> None:
        cut = {name: one.truncated for name, one in encoded.items()}
        if any(cut.values()):
            parts = ", ".join(
                f"{number:,} of {len(encoded[name].examples):,} in {name}" for name, number in cut.items()
            )
            self._progress.say(f"{candidate.model.name}: examples longer than it reads were cut: {parts}")
        # random weights were at no global step
        of_run = candidate.how != FROM_SCRATCH
        step, run = (candidate.model.step, candidate.model.run) if of_run else (None, None)
        parameters = count_parameters(model)
        self._results.append(ModelResult(candidate.model.name, candidate.how, step, parameters, cut, tuple(runs), run))

    def _report_data(self, warnings: Sequence[str]) -> None:
        for line in (*self._data.notes, *warnings):
            self._progress.say(line)
        for split in self._data.splits:
            if split.left_out:
                self._progress.say(
                    f"Left out {len(split.left_out)} of {len(split.left_out) + len(split.examples):,} examples of "
                    f"{split.name}: {split.left_out[0]}"
                )
        if seen := seen_in_training(self._data):
            self._progress.say(f"{seen:,} of {len(self._data.test.examples):,} test examples are in train too")


def best_of(tuned: Sequence[Tuned], score: str) -> Tuned:
    """The one with the highest validation score; of several, the first."""

    def validated(one: Tuned) -> float:
        assert one.result.validation is not None, "it was fine-tuned"
        return one.result.validation[score]

    return max(tuned, key=validated)


def candidates_of(models: Sequence[Model], *, from_scratch: bool, with_experts: bool = False) -> list[Candidate]:
    """How each model is measured: fine-tuned ones as they are, the others after fine-tuning.

    Args:
        from_scratch: begin with the architecture of the first pretrained model, from random weights.
        with_experts: fine-tune pretrained models that have experts a second time, with them.
    """
    found: list[Candidate] = []
    for model in models:
        found.append(Candidate(model, AS_IT_IS if model.is_fine_tuned else FINE_TUNED))
        if with_experts and not model.is_fine_tuned and files_of_experts(model):
            found.append(Candidate(model, WITH_EXPERTS))
    base = next((one.model for one in found if one.how == FINE_TUNED), None)
    return [Candidate(base, FROM_SCRATCH), *found] if from_scratch and base is not None else found
