"""What the demo tells of its global steps."""

from app.demo.story import has_line


def test_a_long_demo_tells_some_of_its_steps_and_a_short_one_all() -> None:
    assert [step for step in range(1, 15) if has_line(step, 14)] == list(range(1, 15))
    told = [step for step in range(1, 81) if has_line(step, 80)]
    assert told == list(range(4, 81, 4))
    assert has_line(83, 83), "the last one is always told"
