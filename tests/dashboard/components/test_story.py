"""What a replay tells at each moment."""

import datetime

from dashboard import texts
from dashboard.api.answers import Evaluation, Fill, Guess, History, Leader, Minute, Sentence, Step
from dashboard.components.story import MOMENTS, MOST_NEWCOMERS, make_story
from dashboard.views.sentences import BLANK

BEGIN = 1_790_000_000.0
UTC = datetime.timezone.utc


def history(**changes: object) -> History:
    values: dict[str, object] = {
        "steps": [
            Step(step=9, time=BEGIN + 100, loss=8.0, samples=10),
            Step(step=19, time=BEGIN + 200, loss=4.0, samples=20),
        ],
        "evaluations": [Evaluation(step=10, time=BEGIN + 110, loss=6.0, unigram_loss=7.0)],
        "minutes": [Minute(time=BEGIN, users=0), Minute(time=BEGIN + 100, users=4), Minute(time=BEGIN + 200, users=2)],
    }
    return History.model_validate(values | changes)


def fill(step: int, *words: str) -> Fill:
    guesses = [Guess(token=word, probability=0.5) for word in words]
    return Fill(step=step, sentences=[Sentence(text="The [MASK]!", guesses=guesses), Sentence(text="no mask")])


def test_figures_rise_with_the_time_of_the_run() -> None:
    story = make_story(history(), [fill(5, "the"), fill(15, "river")], [], UTC)
    moments = story["moments"]
    assert {len(one) for one in moments.values()} == {MOMENTS + 1}
    at = [0, MOMENTS // 2, MOMENTS]  # at the beginning, at the first step that is known, and now
    assert [moments["step"][one] for one in at] == [0, 9, 19]
    assert [moments["samples"][one] for one in at] == [0, 100, 300]
    assert [moments["people"][one] for one in at] == [0, 4, 2]
    assert [moments["fill"][one] for one in at] == [-1, 0, 1]
    assert moments["loss"][0] == 8.0 and moments["loss"][-1] < 6.0
    assert moments["day"][0] == texts.day(BEGIN, UTC)
    assert story["fills"][1] == [("The ", "river", "!"), ("no mask", "", "")]
    assert story["people"] == [(0.0, 1.0), (0.5, 0.0), (1.0, 0.5)]
    places = [y for _, y in (*story["loss"], *story["heldOut"], (0, story["table"]))]
    assert min(places) == 0.0 and max(places) == 1.0


def test_newcomers_come_in_their_order_and_their_names_are_one_line() -> None:
    def leader(user: str, first_seen: float | None) -> Leader:
        return Leader(user=user, samples=1, first_seen=first_seen, last_seen=BEGIN)

    came = [leader("late", BEGIN + 150), leader("~first\u202e\n" + "x" * 99, BEGIN - 50), leader("unknown", None)]
    (first_at, first), late = make_story(history(), [], came, UTC)["newcomers"]
    assert (first_at, late) == (0.0, (0.75, "late"))
    assert first.startswith("~first x") and first.endswith("…") and len(first) == 24


def test_of_very_many_newcomers_some_of_all_times_are_told() -> None:
    crowd = [Leader(user=f"u{n}", samples=1, first_seen=BEGIN + n / 10, last_seen=BEGIN) for n in range(2001)]
    told = make_story(history(), [], crowd, UTC)["newcomers"]
    assert (len(told), told[0], told[-1]) == (MOST_NEWCOMERS, (0.0, "u0"), (1.0, "u2000"))
    assert [0.45 < place < 0.55 for place, _ in told].count(True) == MOST_NEWCOMERS // 10


def test_a_gap_without_a_guess_stays_one() -> None:
    assert make_story(history(), [fill(5)], [], UTC)["fills"] == [[("The ", BLANK, "!"), ("no mask", "", "")]]


def test_a_run_without_two_moments_has_no_story() -> None:
    one, other = history().steps
    strange = [step.model_copy(update={"loss": float("nan")}) for step in (one, other)]
    for steps in ([], [one], strange, [one, other.model_copy(update={"time": one.time})]):
        assert make_story(history(steps=steps, minutes=[]), [], [], UTC) == {}


def test_a_run_of_equal_losses_and_nobodys_minutes_is_drawn() -> None:
    steps = [one.model_copy(update={"loss": 0.0}) for one in history().steps]
    story = make_story(history(steps=steps, evaluations=[], minutes=[]), [], [], UTC)
    assert [y for _, y in story["loss"]] == [0.5, 0.5]
    assert story["people"] == [] and set(story["moments"]["people"]) == {0} and story["table"] is None
