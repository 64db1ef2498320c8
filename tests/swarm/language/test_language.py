"""What the program says in other languages than English, in the console, join.sh, the notebook and the model card."""

import string
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import DEFAULT_KEYWORDS, extract_from_dir
from babel.messages.frontend import parse_mapping_cfg

import swarm.language
from dashboard import language as pages
from swarm.language import NAMES, SOURCE, VARIABLE, Language, _, current, known, several, speak
from swarm.language.catalogue import catalogue

ROOMS = ("app", "averaging", "coordinator", "experts", "swarm", "trainer")  # that tell people something
OTHERS = sorted(NAMES.keys() - {SOURCE})
KEYWORDS = DEFAULT_KEYWORDS | {"mark": None, "several": (1, 2)}
MARKS = ("**", "`", "$", "\\", '"', "●", "◆", "~")  # of emphasis, and of what is typed
THANKS = "Thank you! You contributed {samples} samples ({tokens} tokens) to {steps} global step"


def in_the_code(rooms: Iterable[Path]) -> set[str | tuple[str, ...]]:
    """All texts, as modules, templates and join.sh have them."""
    with Path(swarm.language.__file__).with_name("babel.cfg").open() as file:
        methods, options = parse_mapping_cfg(file)
    found = (extract_from_dir(room, methods, options, KEYWORDS) for room in rooms)
    return {text for room in found for _, _, text, _, _ in room}


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize(("read", "rooms"), [(catalogue, ROOMS), (pages.catalogue, ("dashboard",))])
def test_every_text_is_translated_with_its_figures_and_marks_and_no_other(
    read: Callable[[str], Catalog], rooms: tuple[str, ...], code: str, pytestconfig: pytest.Config
) -> None:
    messages = [message for message in read(code) if message.id]
    known = {one.id if isinstance(one.id, str) else tuple(one.id) for one in messages}
    assert known == in_the_code(pytestconfig.rootpath / room for room in rooms)
    for message in messages:
        english = message.id if isinstance(message.id, str) else message.id[1]
        forms = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
        assert forms and all(forms), english
        for form in forms:
            assert _fields(form) == _fields(english), form
            assert all(form.count(mark) == english.count(mark) for mark in MARKS), form
            assert [form[:1].isspace(), form[-1:].isspace()] == [english[:1].isspace(), english[-1:].isspace()], form


def test_languages_are_those_of_the_pages() -> None:
    assert NAMES == pages.NAMES


def test_codes_and_locales_are_known_by_their_first_part() -> None:
    codes = ["bn", "bn-BD", "bn_IN.UTF-8", "BN", "de", "C.UTF-8", ""]
    assert [known(code) for code in codes] == ["bn", "bn", "bn", "bn", "", "", ""]


def test_the_language_is_the_one_asked_for_else_the_runs_else_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (VARIABLE, "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    speak("")  # other tests of this process may have joined a run
    assert current() == SOURCE
    monkeypatch.setenv("LANG", "bn_BD.UTF-8")
    assert (current(), _("Training again.")) == ("bn", "আবার প্রশিক্ষণ চলছে।")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert (current(), _("Training again.")) == (SOURCE, "Training again.")
    try:
        speak("bn-BD")
        assert (current(), _("Training again.")) == ("bn", "আবার প্রশিক্ষণ চলছে।")
        monkeypatch.setenv(VARIABLE, "en")
        assert current() == SOURCE
        monkeypatch.setenv(VARIABLE, "xx")  # which we have not
        assert current() == "bn"
        speak("sw")
        assert current() == SOURCE
    finally:
        speak("")


def test_what_has_no_translation_is_english() -> None:
    assert [Language(code).text("what nobody has translated") for code in ("bn", "xx")] == [
        "what nobody has translated"
    ] * 2
    assert Language("bn").text("") == ""
    assert [Language("xx").several(f"{THANKS}.", f"{THANKS}s.", count) for count in (1, 2)] == [
        f"{THANKS}.",
        f"{THANKS}s.",
    ]
    assert [several("{n} day", "{n} days", count) for count in (1, 2)] == ["{n} day", "{n} days"]


def test_a_language_calls_itself_by_its_name_and_others_by_their_codes() -> None:
    assert [Language("bn").name_of(code) for code in ("bn", "bn-BD", "en", "sw")] == ["বাংলা", "বাংলা", "en", "sw"]
    assert [Language("en").name_of(code) for code in ("en", "sw")] == ["English", "sw"]


def test_all_texts_of_a_language_are_there_for_a_notebook() -> None:
    assert Language("bn").texts()["Training again."] == "আবার প্রশিক্ষণ চলছে।"
    assert Language("en").texts() == {}


def _fields(text: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(text) if name is not None)
