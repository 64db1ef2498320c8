"""The rules of `sahaj new`: more of anything never makes a smaller model, and every value is within its bounds."""

import itertools
import math

import pytest

from app.new import recipe
from app.new.recipe import LAMB, MUON, SIZES, learning_rate, sample_length
from app.new.sizing import (
    FEWEST_STEPS,
    MOST_STEPS,
    PASSES,
    VOCABULARIES,
    Choice,
    SizingError,
    Speed,
    Text,
    amount,
    choose,
    run_of,
    tokens_needed,
    vocabulary_for,
)
from app.new.writing import content, to_yaml
from swarm.run_file import RunFile
from trainer.model_size import sample_flops

LAPTOPS, GPUS = 1e12, 3e14  # operations a second of all volunteers


def speed(operations: float) -> Speed:
    """Volunteers whose lines are no limit."""
    return lambda run: operations / sample_flops(run)


def text(tokens: float, per_document: float = 400.0) -> Text:
    return Text(8000, tokens, per_document, tokens_per_word=1.5)


def width(choice: Choice) -> int:
    return choice.course.size.width


def test_more_volunteers_days_or_text_never_make_the_model_smaller():
    def widths(choices: list[Choice]) -> list[int]:
        return [width(one) for one in choices]

    by_speed = widths([choose(text(math.inf), speed(2.5e8 * 4**power), 10.0) for power in range(15)])
    by_days = widths([choose(text(math.inf), speed(GPUS), days) for days in (1.0, 3.0, 10.0, 30.0, 100.0)])
    by_text = widths([choose(text(1e5 * 4**power), speed(100 * GPUS), 30.0) for power in range(10)])
    for found in (by_speed, by_days, by_text):
        assert found == sorted(found)
    assert (by_speed[0], by_speed[-1]) == (128, 1024)
    assert (by_text[0], by_text[-1]) == (128, 1024)


def test_more_volunteers_never_compute_less():
    def operations(power: int) -> float:
        course = choose(text(math.inf), speed(1e9 * 2**power), 10.0).course
        return course.samples * sample_flops(run_of(course))

    found = [operations(power) for power in range(26)]
    assert all(after >= 0.8 * before for before, after in itertools.pairwise(found))


@pytest.mark.parametrize("tokens", [2e4, 1e6, 1e8, math.inf])
@pytest.mark.parametrize("operations", [LAPTOPS, 30 * LAPTOPS, GPUS, 100 * GPUS])
@pytest.mark.parametrize("days", [1.0, 10.0, 100.0])
def test_a_run_ends_in_its_days_and_is_within_all_bounds(tokens: float, operations: float, days: float):
    choice = choose(text(tokens), speed(operations), days)
    course = choice.course
    assert course.days <= days
    assert FEWEST_STEPS <= course.steps <= MOST_STEPS
    assert course.tokens <= PASSES * tokens
    assert course.batch in course.size.recipe.batches
    assert course.size is SIZES[0] or course.tokens >= tokens_needed(course)
    if choice.larger is not None:
        assert SIZES.index(choice.larger.size) == SIZES.index(course.size) + 1
        assert choice.larger.tokens < tokens_needed(choice.larger)
    assert max(map(len, to_yaml("", choice.settings()).splitlines())) <= 120
    settings = content(choice.settings())
    optimizer = settings["optimizer"]
    assert 0 < optimizer["warmup_steps"] < optimizer["total_steps"] == course.steps
    assert settings["coordinator"]["evaluate_every"] <= course.steps / 20
    assert settings["coordinator"]["checkpoint_every"] <= course.steps / 10
    assert RunFile.model_validate({"name": "run", **settings, "data": {"train": [{"path": "a"}], **settings["data"]}})


def test_the_measured_hour_gets_the_model_that_was_measured():
    """Two cores for an hour, and text of 0.8 million tokens: `runs/bengali-hour.yaml`."""
    course = choose(text(0.8e6), lambda run: 335.0, 1 / 24 / 0.8).course
    assert (course.size.width, course.size.layers, course.max_length) == (192, 2, 64)
    assert learning_rate(course.size, course.batch, course.steps) == 6.5e-3  # there 8e-3, which was measured 128 wide


def test_the_volunteers_of_sahajbert_get_its_model_and_recipe():
    """27 TFLOP/s each, 40 of them for eight days, and the text of `runs/bengali.yaml`."""
    choice = choose(text(math.inf), speed(40 * 27e12), 8.0)
    assert width(choice) == 1024
    optimizer = content(choice.settings())["optimizer"]
    assert optimizer["name"] == "lamb"
    assert learning_rate(choice.course.size, 4096, 125_000) == 1.76e-3


def test_rounds_that_wait_for_lines_get_a_larger_batch():
    def behind_lines(run: RunFile) -> float:
        """Computing at 400 samples a second, then ten seconds of averaging."""
        batch = run.averaging.target_batch_size
        return batch / (batch / 400.0 + 10.0)

    slow = choose(text(math.inf), behind_lines, 10.0).course
    fast = choose(text(math.inf), lambda run: 100.0, 10.0).course
    assert fast.batch == fast.size.recipe.batches[0] < slow.batch


def test_too_few_volunteers_too_little_text_or_none_that_average_are_told():
    with pytest.raises(SizingError, match=r"compute only 6,080 samples in 0\.9 days"):
        choose(text(math.inf), lambda run: 0.1, 0.9)
    with pytest.raises(SizingError, match=r"10,000 tokens of text give only .* samples in .*: add text"):
        choose(text(1e4), speed(GPUS), 10.0)
    with pytest.raises(SizingError, match="no volunteer could average"):
        choose(text(math.inf), lambda run: 0.0, 10.0)


def test_rates_fall_with_the_width_and_follow_the_batch():
    small = [size for size in SIZES if size.recipe is MUON]
    rates = [learning_rate(size, 320, 4000) for size in small]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == recipe.MUON_RATE
    assert learning_rate(small[0], 320, 80) == 1.2e-2
    large = SIZES[-1]
    assert large.recipe is LAMB
    assert learning_rate(large, 1024, 4000) == pytest.approx(1.76e-3 / 2)


@pytest.mark.parametrize("per_document, length", [(3.0, 64), (65.0, 128), (300.0, 512), (9000.0, 512)])
def test_samples_are_as_long_as_documents(per_document: float, length: int):
    assert sample_length(SIZES[-1], per_document) == length


def test_vocabularies_grow_with_text_and_alphabet():
    found = [vocabulary_for(10**power, 60) for power in range(4, 10)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (VOCABULARIES[-1], VOCABULARIES[0])
    assert vocabulary_for(2.7e6, 90) == 8_000  # the text of the hour
    assert vocabulary_for(1e5, 3_500) == 16_000  # Chinese
    assert vocabulary_for(math.inf, 60) == 32_000


def test_reasons_say_what_stood_in_the_way():
    course = choose(text(1e6), speed(GPUS), 10.0)
    size = course.settings()["model"].entries["hidden_size"]
    assert "this text gives" in size.reason
    course = choose(text(math.inf), speed(LAPTOPS), 10.0)
    size = course.settings()["model"].entries["hidden_size"]
    assert "these volunteers can process" in size.reason


@pytest.mark.parametrize("number, said", [(320e6, "320 million"), (1.24e10, "12 billion"), (950.0, "950")])
def test_amounts_have_two_digits(number: float, said: str):
    assert amount(number) == said
