"""What text looks like before it is cut into tokens."""

import unicodedata

import pytest

from tokenizer.normalization import (
    LANGUAGES,
    LanguageRules,
    ReplacementRule,
    build_normalizer,
    build_pre_tokenizer,
    rules_of,
)

ALL_RULES = [(language, rule) for language, rules in LANGUAGES.items() for rule in rules.raw + rules.normal]


@pytest.mark.parametrize(("language", "rule"), ALL_RULES, ids=lambda value: getattr(value, "pattern", value))
def test_each_rule_does_what_its_example_says(language: str, rule: ReplacementRule) -> None:
    before, after = rule.example
    normalizer = build_normalizer(language, lowercase=False)
    expected = unicodedata.normalize("NFKC", after)
    assert normalizer.normalize_str(before) == expected
    assert normalizer.normalize_str(expected) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("বললে: চলো", "বললে: চলো"),  # a colon at the end of a word is one
        ("১:১ গোলে", "১:১ গোলে"),
        ("যাঃ ফুঃ!", "যাঃ ফুঃ!"),
        ("মূল্য ১৷৴৹", "মূল্য ১৷৴৹"),  # currency
        ("cat a.txt | sort", "cat a.txt | sort"),
        ("হ\u200c\u200cইয়া গেল", "হইয়া গেল"),
        ("ব\u200d\u09cdযাটিং", "ব\u09cdযাটিং"),
        ("কার\u09cdয", "কার\u09cdয"),
    ],
)
def test_bengali_keeps_its_words_and_meanings(before: str, after: str) -> None:
    normalizer = build_normalizer("bn", lowercase=False)
    assert normalizer.normalize_str(before) == unicodedata.normalize("NFKC", after)


def test_spaces_and_compatibility_characters_are_made_uniform_in_every_language() -> None:
    normalizer = build_normalizer("en", lowercase=False)
    assert normalizer.normalize_str("a  b\t\n c\u200bd ﬁ ２\x07 ") == "a b c d fi 2"


def test_case_is_folded_only_on_request() -> None:
    assert build_normalizer("en", lowercase=False).normalize_str("ÀB") == "ÀB"
    assert build_normalizer("en", lowercase=True).normalize_str("ÀB") == "àb"


def test_languages_without_an_entry_have_no_rules() -> None:
    assert rules_of("en") == LanguageRules()
    assert rules_of("bn-BD") == rules_of("BN_in") == LANGUAGES["bn"]


def test_digits_and_punctuation_stand_alone() -> None:
    pieces = [piece for piece, _ in build_pre_tokenizer().pre_tokenize_str("in 2024, (ab)-c।")]
    assert pieces == ["▁in", "▁", "2", "0", "2", "4", ",", "▁", "(", "ab", ")", "-", "c", "।"]
