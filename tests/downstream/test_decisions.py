"""Which epoch is the best, when training ends, what is done with a model, and what a table says: no model needed."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from downstream.comparison import candidates_of
from downstream.errors import ModelError
from downstream.models import Model, task_of
from downstream.report.results import (
    AS_IT_IS,
    FINE_TUNED,
    FROM_SCRATCH,
    ModelResult,
    Results,
    SeedResult,
    SplitSummary,
    Spread,
    as_json,
    spread,
    table_of,
)
from downstream.tasks.classify import Classification
from downstream.tasks.ner import NamedEntities
from downstream.tasks.tags import all_tags
from downstream.training import Epoch, best_epoch, epochs_without_progress


def epochs(*pairs: tuple[float, float]) -> list[Epoch]:
    return [Epoch({"f1": score}, loss) for score, loss in pairs]


def test_the_first_of_the_best_epochs_is_taken():
    assert best_epoch(epochs((0.1, 3), (0.5, 2), (0.5, 1), (0.2, 0)), "f1") == 2


@pytest.mark.parametrize(
    ("history", "without"),
    [
        ([(0.0, 2.0)], 0),
        ([(0.0, 2.0), (0.0, 1.9), (0.0, 1.8)], 0),  # F1 stays at 0 while the loss falls
        ([(0.5, 1.0), (0.6, 1.1), (0.7, 1.2)], 0),  # the loss rises while F1 does too
        ([(0.5, 1.0), (0.6, 1.1), (0.5, 1.0), (0.6, 1.2)], 2),
        ([(0.5, 1.0), (0.4, 1.1), (0.3, 1.2), (0.3, 0.9)], 0),
    ],
)
def test_an_epoch_is_progress_if_score_or_loss_is_better_than_ever(history: list[tuple[float, float]], without: int):
    assert epochs_without_progress(epochs(*history), "f1") == without


def model(name: str, head: str | None = None) -> Model:
    return Model(name, Path(name), None, head)


def test_finished_models_are_measured_as_they_are_and_others_fine_tuned():
    pretrained, finished = model("a"), model("b", "ForTokenClassification")
    assert [(one.model.name, one.how) for one in candidates_of([finished, pretrained], from_scratch=True)] == [
        ("a", FROM_SCRATCH),
        ("b", AS_IT_IS),
        ("a", FINE_TUNED),
    ]
    assert [one.how for one in candidates_of([finished], from_scratch=True)] == [AS_IT_IS]


def test_a_finished_model_tells_the_task():
    assert isinstance(task_of([model("a"), model("b", "ForTokenClassification")]), NamedEntities)
    assert isinstance(task_of([model("b", "ForSequenceClassification")]), Classification)
    for models in ([model("a")], [model("a", "ForQuestionAnswering")]):
        with pytest.raises(ModelError, match="say which: ner or classify"):
            task_of(models)


def test_entities_are_counted_whole():
    truth = [("B-PER", "I-PER", "O", "B-LOC"), ("O", "O")]
    given = [("B-PER", "O", "O", "B-LOC"), ("O", "B-LOC")]
    scores = NamedEntities().score(truth, given)
    assert scores == pytest.approx({"precision": 1 / 3, "recall": 1 / 2, "f1": 0.4, "accuracy": 4 / 6})


def test_no_entity_found_is_a_score_of_zero():
    assert NamedEntities().score([("B-PER",)], [("O",)])["f1"] == 0.0


def test_rare_labels_count_as_much_in_macro_f1():
    scores = Classification().score([("a",)] * 9 + [("b",)], [("a",)] * 10)
    assert scores == pytest.approx({"accuracy": 0.9, "macro_f1": 0.5 * 18 / 19})


def test_tags_are_complete_and_in_order():
    assert all_tags(["O", "I-PER", "B-LOC", "O"]) == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def test_the_deviation_is_that_of_a_sample():
    found = spread([0.1, 0.2, 0.3])
    assert (found.mean, found.deviation) == pytest.approx((0.2, 0.1))
    assert spread([0.5]) == Spread(0.5, None)
    assert str(Spread(0.1234, 0.01)) == "12.3 ± 1.0"
    assert str(Spread(0.1234, None)) == "12.3"


def some_results() -> Results:
    runs = tuple(
        SeedResult({"f1": f1, "accuracy": 0.9}, {"f1": f1 + 0.1, "accuracy": 0.9}, seed, 1e-4, 5, 2, 1.0)
        for seed, f1 in enumerate((0.5, 0.6), start=1)
    )
    return Results(
        task="ner",
        scores=("f1", "accuracy"),
        labels=("O", "B-PER", "I-PER"),
        data={"test": SplitSummary("data/[red]test.conll", 1950, ())},
        test_examples_seen_in_training=0,
        settings={},
        software={},
        models=(
            ModelResult("checkpoint-100", FINE_TUNED, 100, 1234, {"test": 1}, runs),
            ModelResult("[bold]other", AS_IT_IS, None, 99, {"test": 0}, (SeedResult({"f1": 0.7, "accuracy": 0.95}),)),
        ),
    )


def test_the_table_shows_mean_and_deviation_in_percent_and_names_as_they_are():
    console = Console(width=100, record=True)
    console.print(table_of(some_results()))
    text = console.export_text()
    for part in (
        "1,950",
        "[red]test.conll",
        "checkpoint-100, fine-tuned",
        "65.0 ± 7.1",
        "55.0 ± 7.1",
        "[bold]other",
        "70.0",
    ):
        assert part in text, part


def test_json_holds_every_seed_and_the_means():
    content = json.loads(as_json(some_results()))
    first, second = content["models"]
    assert first["test"]["f1"] == pytest.approx({"mean": 0.55, "deviation": 0.5**0.5 / 10})
    assert [run["test"]["f1"] for run in first["runs"]] == [0.5, 0.6]
    assert first["truncated"] == {"test": 1}
    assert second["validation"] == {}
    assert second["test"]["accuracy"] == {"mean": 0.95, "deviation": None}
