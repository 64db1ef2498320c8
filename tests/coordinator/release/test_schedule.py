"""Which checkpoint is released next, and the tags of a release."""

import pytest

from coordinator.release.schedule import missing_tags, next_release, tags_of


@pytest.mark.parametrize(
    ("steps", "released", "wanted"),
    [
        ([], 0, None),
        ([50], 0, None),
        ([50, 100], 0, 100),
        ([110, 120, 130], 0, 110),
        ([110, 120, 130], 110, None),
        ([110, 120, 230, 240], 0, 230),
        ([110, 230], 300, None),
        ([950, 1000], 900, 1000),
        ([1000], 1000, None),
        ([990, 1000], 0, 1000),
    ],
)
def test_the_first_checkpoint_of_the_newest_span_is_due(steps: list[int], released: int, wanted: int | None):
    assert next_release(steps, released, 100, 1000) == wanted


def test_milestones_and_the_end_have_tags():
    assert tags_of(310, 250, 300, 1000) == ("step-310",)
    assert tags_of(350, 310, 300, 1000) == ()
    assert tags_of(1000, 900, None, 1000) == ("final",)


def test_a_release_that_was_stopped_before_its_tags_gets_them_later():
    assert missing_tags(310, {"step-10"}, 300, 1000) == ("step-310",)
    assert missing_tags(310, {"step-310"}, 300, 1000) == ()
    assert missing_tags(1000, set(), None, 1000) == ("final",)
