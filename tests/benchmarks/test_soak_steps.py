"""The soak tells of steps that were lost in the middle, too."""

from benchmarks.soak.steps import LAG, Steps


def looked(*looks: tuple[float, int, int]) -> int:
    steps = Steps()
    for now, held, said in looks:
        steps.look(held, said, now)
    return steps.lost


def test_steps_that_only_the_dead_had_are_lost_although_they_are_done_again() -> None:
    assert looked((0.0, 10, 10), (1.0, 8, 11), (2.0, 8, 8), (1.0 + LAG, 8, 8), (9.0, 12, 12)) == 3


def test_who_says_a_little_later_that_it_finished_a_step_has_lost_nothing() -> None:
    assert looked((0.0, 10, 10), (1.0, 10, 11), (2.0, 11, 11), (9.0, 12, 12)) == 0


def test_a_coordinator_that_catches_up_has_lost_nothing_while_a_trainer_lives() -> None:
    assert looked((0.0, 10, 10), (5.0, 11, 11), (20.0, 11, 11)) == 0


def test_what_was_lost_is_counted_once() -> None:
    fall = [(float(now), 8, 8) for now in range(1, 20)]
    assert looked((0.0, 10, 10), *fall) == 2
