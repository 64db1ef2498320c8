"""Codes of countries, as people write them."""

import pytest

from swarm.countries import COUNTRIES, UnknownCountry, country_code


def test_codes_are_those_of_iso_3166():
    assert len(COUNTRIES) == 249
    assert all(len(code) == 2 and code.isascii() and code.isupper() for code in COUNTRIES)
    assert {"BD", "IN", "GB", "SS"} <= COUNTRIES


@pytest.mark.parametrize("written", ["BD", "bd", " Bd "])
def test_a_code_may_be_written_in_small_letters(written: str):
    assert country_code(written) == "BD"


@pytest.mark.parametrize("written", ["UK", "Bangladesh", "", "B\nD"])
def test_anything_else_ends_in_one_line(written: str):
    with pytest.raises(UnknownCountry, match="must be a country code of two letters") as caught:
        country_code(written)
    assert "\n" not in str(caught.value)
