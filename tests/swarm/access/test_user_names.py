"""Names that people choose."""

import pytest

from swarm.access.user_names import chosen_name


@pytest.mark.parametrize("name", ["asha", "র\u200d্যাঁদা", "می\u200cخواهم", "👩\u200d🔬"])
def test_joiners_are_part_of_names(name: str) -> None:
    assert chosen_name(name) == name


@pytest.mark.parametrize("unseen", ["\u200b", "\u00ad", "\u2060", "\ufeff", "\u202e", "\U000e0061"])
def test_a_name_hides_nothing_that_would_make_it_look_like_another(unseen: str) -> None:
    assert chosen_name(f"as{unseen}ha") is None
