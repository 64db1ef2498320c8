"""How the run went, and what is expected of it, as the service tells it."""

from collections.abc import Callable

import httpx
import pytest

from coordinator.http.routes.learning import planned_rates
from coordinator.http.routes.public import describe_progress, expected_finish
from coordinator.http.schemas import LastHourAnswer
from coordinator.ledger.answers import FilledSentence
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger
from swarm.run_file import OptimizerSection
from tests.coordinator.http.conftest import Service


def hour(steps: int, seconds: float = 3600.0) -> LastHourAnswer:
    return LastHourAnswer(seconds=seconds, steps=steps, samples=0, tokens=0, users_present=0, users_ever=0, hours=0.0)


@pytest.mark.parametrize(
    ("step", "last", "finish"),
    [
        (40, hour(60), 1000.0 + 60 * 60.0),
        (99, hour(1), 1000.0 + 3600.0),
        (40, hour(10, 600.0), 1000.0 + 60 * 60.0),
        (100, hour(60), None),  # done
        (40, hour(0), None),  # it stands still
        (40, hour(3, 30.0), None),  # too early to say
        (40, None, None),
    ],
)
def test_the_end_is_expected_at_the_pace_of_the_last_hour(
    step: int, last: LastHourAnswer | None, finish: float | None
) -> None:
    assert expected_finish(step, 100, last, 1000.0) == finish


def test_progress_tells_the_change_over_the_last_hour_and_of_the_step_in_work(
    service: Service, ledger: Ledger, report: Callable[..., SessionReport]
) -> None:
    context, history = service.context, ledger.history
    began = 4_000_000_000.0  # long after what the ledger has counted already

    def told(now: float) -> dict:
        return describe_progress(context, ledger.progress(now), ledger.totals(), now).model_dump()

    def contribute(user: str, step: int, now: float) -> None:
        ledger.record([report(user, user=user, started=now - 10, last_seen=now, steps={step: (10, 5.0)})], now)

    assert told(began)["last_hour"] is None
    history.note_minute(averaging_seconds=None, now=began)
    contribute("di", 3, began + 30)
    early = told(began + 80)
    assert (early["last_hour"]["steps"], early["last_hour"]["samples"]) == (1, 10)
    assert early["last_hour"]["seconds"] == pytest.approx(80 + began % 60)
    history.note_minute(averaging_seconds=None, now=began + 1800)  # the last row of more than an hour ago counts
    contribute("ed", 4, began + 4000)
    contribute("ed", 5, began + 4060)
    late = told(began + 4100)
    assert late["last_hour"] == {
        "seconds": pytest.approx(4100 + began % 60),
        "steps": 3,
        "samples": 30,
        "tokens": 3 * 1280,
        "users_present": 1,
        "users_ever": 2,
        "hours": pytest.approx(60 / 3600),
    }
    assert late["finish"] == pytest.approx(began + 4100 + (100 - 7) * late["last_hour"]["seconds"] / 3)
    assert (late["step_samples"], late["target_batch_size"]) == (12, 4096)
    assert (late["users_ever"], late["sessions_ever"], late["total_steps"]) == (4, 4, 100)
    context.notices.pause()
    assert told(began + 4100)["finish"] == late["finish"], "newcomers are not let in, and all others go on"
    context.notices.stop()
    assert told(began + 4100)["finish"] is None


def test_history_is_the_whole_run_in_few_points(client: httpx.Client, ledger: Ledger) -> None:
    ledger.record_evaluation(
        4,
        1000.0,
        sentence_order_loss=0.6,
        samples=64,
        sentence_order_accuracy=0.75,
        unigram_loss=1002.5,
        now=1200.0,
    )
    ledger.history.note_minute(averaging_seconds=2.5, now=1100.0)
    history = client.get("/api/history").json()
    assert set(history) == {"steps", "evaluations", "minutes", "learning_rate"}
    assert [(one["step"], one["samples"], one["peers"], one["loss"]) for one in history["steps"]] == [
        (1, 40.0, 2.0, 9.5),
        (2, 40.0, 2.0, 9.5),
    ]
    assert history["steps"][0]["time"] > 1_000_000_000
    first, second = history["evaluations"]
    assert first["perplexity"] == pytest.approx(10404.57, rel=1e-5) and first["sentence_order_accuracy"] is None
    assert (second["perplexity"], second["sentence_order_accuracy"]) == (None, 0.75)
    assert (first["unigram_loss"], first["below_unigram"]) == (9.75, 0.5)
    assert (second["unigram_loss"], second["below_unigram"]) == (1002.5, 2.5)
    (minute,) = history["minutes"]
    assert (minute["time"], minute["averaging_seconds"], minute["averaging_rounds"]) == (1080, 2.5, 0)
    assert client.get("/api/history?points=50").json() == history
    for points in ("49", "2001", "many"):
        assert client.get(f"/api/history?points={points}").status_code == 422


def test_the_planned_learning_rate_rises_falls_and_ends_at_zero() -> None:
    rates = planned_rates(OptimizerSection(learning_rate=0.5, warmup_steps=333, total_steps=1000))
    steps = [one.step for one in rates]
    assert steps == sorted(set(steps)) and (steps[0], steps[-1]) == (0, 1000)
    top = max(rates, key=lambda one: one.rate)
    assert (top.step, top.rate) == (333, pytest.approx(0.5))
    assert rates[-1].rate == 0.0


def test_what_the_model_puts_for_masks_is_told_oldest_first(client: httpx.Client, ledger: Ledger) -> None:
    for step, word in ((8, "sea"), (4, "the")):
        guesses = ((word, 0.5), ("<i>boat", 0.25))
        ledger.history.record_fills(step, [FilledSentence.of("To the [MASK].", guesses)], now=1000.0 + step)
    first, second = client.get("/api/fills").json()
    assert (first["step"], first["time"], second["step"]) == (4, 1004.0, 8)
    assert second["sentences"] == [
        {
            "text": "To the [MASK].",
            "guesses": [{"token": "sea", "probability": 0.5}, {"token": "<i>boat", "probability": 0.25}],
        }
    ]
