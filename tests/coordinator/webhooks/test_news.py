"""What is told of a run, and how often."""

from pathlib import Path

import pytest

from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.ledger.answers import FilledSentence
from coordinator.main import tell_opening
from coordinator.webhooks.news import BETWEEN_CHECKPOINTS, BETWEEN_MOMENTS, LONGEST_SENTENCE, News, in_words
from swarm.access.notices import BestCheckpoint
from swarm.run_file import RunFile, parse_run


@pytest.fixture
def run() -> RunFile:
    content = {
        "name": "test-run",
        "description": "a model of rivers",
        "data": {"train": [{"path": "river.txt"}]},
        "optimizer": {"warmup_steps": 10, "total_steps": 100},
        "access": {"url": "https://run.example.org"},
    }
    return parse_run(content, Path("run.yaml"))


def state(step: int, loss: float | None, below: float | None = None) -> TrainerState:
    return TrainerState("test-run", step, 64, loss, "2026-11-26T12:00:00+00:00", "digest", "sahaj", below_unigram=below)


def test_the_beginning_is_told_once_in_a_run(run: RunFile, tmp_path: Path) -> None:
    told: list[str] = []
    news = News(run, told.append, step=0)
    tell_opening(news, 5, tmp_path)  # it goes on from a release
    assert told == []
    for _ in range(2):  # nobody has joined before the second start
        tell_opening(news, 0, tmp_path)
    assert told == ["The run test-run has begun: a model of rivers\nJoin: https://run.example.org"]


def test_after_a_rollback_a_checkpoint_is_the_best_of_those_that_count(run: RunFile) -> None:
    told: list[str] = []
    news = News(run, told.append, step=50, losses=[7.0, 2.0])
    news.note_losses([7.0])
    news.note_checkpoint(state(70, 6.5, 0.7))
    assert "global step 70 of 100 is the best so far" in told[0]


def test_of_better_checkpoints_one_is_told_in_six_hours(run: RunFile) -> None:
    told, now = list[str](), [0.0]
    news = News(run, told.append, step=50, losses=[7.0], now=lambda: now[0])
    for step, loss, below in ((60, 7.5, 0.1), (61, None, None), (62, 7.0, 0.1), (63, 6.9, -0.1), (64, 6.8, None)):
        news.note_checkpoint(state(step, loss, below))
    assert told == []
    news.note_checkpoint(state(70, 6.5, 0.7))
    news.note_checkpoint(state(71, 6.0, 1.2))
    now[0] += BETWEEN_CHECKPOINTS
    news.note_checkpoint(state(72, 6.2, 1.0))
    assert told == [
        "test-run: the checkpoint of global step 70 of 100 is the best so far. "
        "Held-out loss: 6.50 nats, 0.70 lower than guessing from word frequencies alone."
    ]
    news.note_checkpoint(state(73, 5.9, 1.3))
    assert len(told) == 2 and "step 73 of 100 is the best so far. Held-out loss: 5.90 nats, 1.30 lower" in told[1]


def test_of_better_checkpoints_those_who_train_are_shown_one_in_ten_minutes(run: RunFile) -> None:
    told, shown, now = list[str](), list[BestCheckpoint](), [0.0]
    news = News(run, told.append, shown.append, step=50, losses=[7.0], now=lambda: now[0])
    filled = [FilledSentence.of("The [MASK] flows.", [("river", 0.5)]), FilledSentence.of("Tea is [MASK].", [])]
    for step, loss, below in ((60, 7.5, 0.1), (63, 6.9, -0.1), (64, 6.8, None)):
        news.note_checkpoint(state(step, loss, below), filled)
    assert shown == []
    for step, loss in ((70, 6.5), (71, 6.4), (72, 6.3), (73, 6.35), (74, 6.2)):
        news.note_checkpoint(state(step, loss, 1.0), filled)
        now[0] += BETWEEN_MOMENTS / 2
    assert shown == [
        BestCheckpoint(70, 6.5, 1.0, "The [river] flows."),
        BestCheckpoint(72, 6.3, 1.0, ""),  # another sentence, and the model has no word for it
        BestCheckpoint(74, 6.2, 1.0, "The [river] flows."),
    ]
    assert len(told) == 1


def test_a_sentence_that_is_too_long_for_a_line_is_left_out() -> None:
    assert in_words(FilledSentence.of("a\n[MASK] b", [("c", 0.5)])) == "a [c] b"
    assert in_words(FilledSentence.of("x" * LONGEST_SENTENCE + " [MASK]", [("c", 0.5)])) == ""


def test_releases_and_the_end(run: RunFile) -> None:
    told: list[str] = []
    news = News(run, told.append, step=0)
    news.note_release(state(50, 9.0, -1.5), ("half",), "https://hub/river")
    for step in (99, 100, 100):
        news.note_step(step)
    assert told == [
        "test-run: global step 50 is released as half. "
        "Held-out loss: 9.00 nats, 1.50 higher than guessing from word frequencies alone.\nhttps://hub/river",
        "The run test-run has ended after 100 global steps.",
    ]


def test_an_order_ends_it_and_a_restart_does_not_tell_it_again(run: RunFile) -> None:
    told, stopped = list[str](), [False]
    news = News(run, told.append, step=5, losses=[6.0], stopped=lambda: stopped[0])
    news.note_step(6)
    stopped[0] = True
    news.note_step(7)
    assert told == [
        "The run test-run has ended at global step 7 of 100: the organizer stopped it. "
        "The best checkpoint has a held-out loss of 6.00 nats."
    ]
    News(run, told.append, step=7, stopped=lambda: True).note_step(7)
    News(run, told.append, step=100).note_step(100)
    assert len(told) == 1
    stopped[0] = False  # the order is taken back
    for step in (8, 100):
        news.note_step(step)
    assert [line[:45] for line in told[1:]] == ["The run test-run has ended after 100 global s"]
