import pytest

from coordinator.ledger.teams.names import NameRefused, folded, team_name


@pytest.mark.parametrize(
    "name",
    [
        "ab",
        "River people",
        "নদীর মানুষ",
        "র\u200dযাব",  # with a joiner
        "কৃষ্ণচূড়া",
        "O'Brien-Smith_2.0",
        "한국 팀",
        "עברית",
        "فريق",
        "می\u200cرویم",
        "Łódź",
        "42",
        "x" * 30,
    ],
)
def test_names_of_any_script_are_kept(name: str) -> None:
    assert folded(team_name(name)) == folded(name)
    assert team_name(team_name(name)) == team_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "2 to 30"),
        (" a ", "2 to 30"),
        ("x" * 31, "2 to 30"),
        ("a\nb", "U+000A"),
        ("a\tb", "U+0009"),
        ("a\x00b", "U+0000"),
        ("ab\u202ecd", "U+202E"),  # turns the text around
        ("\u200fab", "U+200F"),
        ("ab\u2066", "U+2066"),
        ("a\u200bb", "U+200B"),  # of no width
        ("\u200dab", "U+200D"),
        ("ab\u200d", "U+200D"),
        ("a\u200d\u200db", "U+200D"),
        ("1\u200d2", "U+200D"),
        ("\u3164\u3164", "U+3164"),  # letters that show nothing
        ("ab\ufe0f", "U+FE0F"),
        ("a\u034fb", "U+034F"),
        ("a\u00a0b", "U+00A0"),
        ("a\u2028b", "U+2028"),
        ("\ud800ab", "U+D800"),
        ("<b>hi</b>", "U+003C"),
        ("[a](b)", "U+005B"),
        ("a`b", "U+0060"),
        ("~asha", "U+007E"),
        ("team 🚀", "U+1F680"),
        ("a" + "\u0316" * 5, "marks"),
        ("\u09cdab", "begins"),
        ("...", "at least one"),
        ("-_", "at least one"),
    ],
)
def test_names_that_hide_or_disturb_are_refused(name: str, why: str) -> None:
    with pytest.raises(NameRefused, match=why.replace("+", r"\+")) as caught:
        team_name(name)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("River", "rIVER"),
        ("River", "Ｒｉｖｅｒ"),  # wide letters
        ("Straße", "STRASSE"),
        ("caf\u00e9", "cafe\u0301"),
        ("River  people", " River people "),
        ("ﬁsh", "fish"),
        ("র\u200dয", "রয"),
        ("ড\u09bc", "\u09dc"),
    ],
)
def test_names_that_look_the_same_are_one(one: str, other: str) -> None:
    assert folded(team_name(one)) == folded(team_name(other))


def test_names_are_kept_composed_with_single_spaces() -> None:
    assert team_name("  cafe\u0301   sur   mer ") == "caf\u00e9 sur mer"
