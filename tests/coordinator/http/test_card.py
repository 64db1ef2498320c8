"""The card to share: what it says, that it is only an image, and that names fit."""

from dataclasses import replace
from xml.etree import ElementTree

import httpx
import pytest

from coordinator.http.card import CURVE_BOTTOM, CURVE_TOP, LEFT, RIGHT, Facts, card, fitted, initial, placed
from coordinator.http.routes.people import card_language
from coordinator.ledger.ledger import Ledger
from dashboard.language import NAMES
from swarm.language import NAMES as OF_CARDS
from tests.coordinator.http.routes.test_people import add
from tests.recorded_month.people import AWKWARD

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {SVG + tag for tag in ("svg", "title", "rect", "circle", "text", "clipPath", "path", "g")}
FACTS = Facts(
    run="bengali",
    user="asha",
    samples=1_234_567,
    tokens_served=9,
    hours=301.7,
    rank=12,
    days=9,
    curve=[(1000.0, 10.0), (2000.0, 5.0), (3000.0, 2.5)],
    visits=[(900.0, 1500.0), (2900.0, 2901.0), (4000.0, 5000.0)],
)


def written(content: bytes) -> list[str]:
    return [str(one.text) for one in ElementTree.fromstring(content).iter(f"{SVG}text")]


def test_a_card_says_what_somebody_gave() -> None:
    assert written(card(FACTS, "en")) == [
        *("A", "asha", "bengali"),
        *("1.2M", "samples", "302", "hours", "12", "rank", "9", "days in a row"),
        "Loss of the run; highlighted while this person took part",
    ]
    assert "নমুনা" in written(card(FACTS, "bn"))
    assert written(card(replace(FACTS, samples=0), "en"))[3:5] == ["9", "tokens served"]


def test_a_run_without_a_curve_has_cards_too() -> None:
    for curve in ([], FACTS.curve[:1], [FACTS.curve[0]] * 2):
        content = card(replace(FACTS, curve=curve), "en")
        assert not list(ElementTree.fromstring(content).iter(f"{SVG}path"))


def test_the_curve_fills_its_place_and_visits_are_seen_however_short() -> None:
    points, spans = placed(FACTS.curve, FACTS.visits)
    assert points == [(LEFT, CURVE_TOP), ((LEFT + RIGHT) / 2, (CURVE_TOP + CURVE_BOTTOM) / 2), (RIGHT, CURVE_BOTTOM)]
    assert spans == [(LEFT, (RIGHT - LEFT) / 4), (pytest.approx(RIGHT - 53.6), 4.0)]
    _, late = placed(FACTS.curve, [(3000.0, 3000.0)])
    assert late == [(RIGHT - 4.0, 4.0)]


@pytest.mark.parametrize(
    ("name", "letter"),
    [("asha", "A"), ("~boat", "B"), ("~নৌকা", "নৌ"), ("~<b>x", "B"), ("~", "?"), ("~ ***", "*"), ("~🌊 river", "R")],
)
def test_an_avatar_has_the_first_letter(name: str, letter: str) -> None:
    assert initial(name) == letter


def test_a_long_text_gets_smaller_and_then_shorter() -> None:
    assert fitted("asha", 900, 60) == ("asha", 60)
    text, size = fitted("a" * 30, 900, 60)
    assert text == "a" * 30 and 26 < size < 60
    text, size = fitted("W" * 200, 900, 60)
    assert text.endswith("W…") and len(text) < 60 and size == 26
    bengali, _ = fitted("নৌকা" * 60, 900, 60)
    assert bengali.endswith("…") and bengali[-2] not in "ৌা"


@pytest.mark.parametrize("user", AWKWARD)
def test_a_name_of_any_kind_is_text_on_a_card(client: httpx.Client, ledger: Ledger, user: str) -> None:
    add(ledger, user, 1_234_567)
    answer = client.get("/api/card.svg", params={"user": user})
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    image = ElementTree.fromstring(answer.content)
    assert {one.tag for one in image.iter()} <= TAGS
    assert not [name for one in image.iter() for name in one.attrib if name.startswith("on") or "href" in name]
    shown = written(answer.content)
    assert " ".join(user.replace("\u202e", "").split())[:30] in shown[1]
    assert "1.2M" in shown and "test-run" in shown


def test_a_card_is_in_the_language_that_is_asked_for_or_the_runs(client: httpx.Client) -> None:
    assert "নমুনা" in client.get("/api/card.svg", params={"user": "asha", "lang": "bn-BD"}).text
    assert client.get("/api/card.svg", params={"user": "nobody"}).status_code == 404
    assert client.get("/api/card.svg", params={"user": "asha", "lang": "x" * 41}).status_code == 422
    assert [card_language(*one) for one in (("", "bn"), ("de", "bn_IN"), ("de", "fr"), ("EN-gb", "bn"))] == [
        *("bn", "bn", "en", "en")
    ]
    assert OF_CARDS.keys() == NAMES.keys(), "cards are in the languages of the dashboard"
