"""The replay of a run and the card of a person in a real browser."""

import json
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import matplotlib.image
import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from coordinator.http.card import HEIGHT, RIGHT, WIDTH, Facts, card
from tests.dashboard.browsing import EACH_WIDTH, SCREENSHOTS, Reader, reading
from tests.dashboard.conftest import Pages
from tests.recorded_month.people import AWKWARD
from tests.recorded_month.serving import Served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("browser")  # one Streamlit and one browser for all of them

LONG = [
    "~" + "W" * 39,
    "~" + "নৌকাবাইচ " * 5,
    "~" + "漢字" * 20,
    "~" + "🚣" * 20,
    "~" + "ক্ষ্ম" * 8,
    "user-with-a-hub-name-of-42-characters-here",
]
PLAY_A_FRAME = """async (button) => {
    const slider = button.parentElement.querySelector("input");
    button.click();
    const plays = button.ariaLabel;
    while (slider.value === "0") await new Promise(requestAnimationFrame);
    button.click();
    return [plays, button.ariaLabel];
}"""
EDGES = "[...document.querySelectorAll('text')].map(one => one.getBBox()).map(one => [one.x, one.x + one.width])"


@pytest.fixture
def small_pages(pages: Pages, small: Served) -> Pages:
    """The pages before the small run."""
    pages.switch.lead_to(small.url)
    return pages


@pytest.mark.parametrize("width", EACH_WIDTH)
def test_a_replay_begins_by_itself_stops_and_is_moved_by_the_keyboard(
    browser: Browser, small_pages: Pages, small: Served, width: str
) -> None:
    with reading(browser, small_pages.url, width) as reader:
        step = small.ask("history?points=600").json()["steps"][-1]["step"]
        first, *_, last = (one["sentences"][0]["guesses"][0]["token"] for one in small.ask("fills").json())
        wait_until(lambda: _end_of_the_replay(reader) == (f"{step:,}", last), "the replay of the small run")
        reader.open("replay", "each mark is a newcomer")
        button, slider = reader.page.locator(".controls button"), reader.page.get_by_role("slider")
        expect(slider).not_to_have_value("0")
        slider.focus()
        reader.page.keyboard.press("Home")
        expect(slider).to_have_value("0")
        expect(reader.page.locator(".figures b").first).to_have_text("0")
        expect(reader.page.locator(".sentences b").first).to_have_text(first)  # its model is that of step 0
        reader.page.keyboard.press("End")
        expect(reader.page.locator(".figures b").first).to_have_text(f"{step:,}")
        expect(reader.page.locator(".sentences b").first).to_have_text(last)
        expect(slider).to_have_attribute(
            "aria-valuetext", f"{reader.page.locator('time').inner_text()}, Global step {step:,}"
        )
        reader.page.keyboard.press("ArrowLeft")
        expect(slider).to_have_value("999")
        assert reader.fits()
        reader.picture(SCREENSHOTS / f"replay-end-{width}.png")
        reader.page.keyboard.press("Home")
        assert button.evaluate(PLAY_A_FRAME) == ["Pause the replay", "Play"]
        reader.page.keyboard.press("Home")
        expect(slider).to_have_value("0")
        button.focus()
        reader.page.keyboard.press("Space")
        expect(slider).not_to_have_value("0")
        assert reader.problems == [] and reader.outside == []


def _end_of_the_replay(reader: Reader) -> tuple[str, str]:
    """The last step and word of the replay as it is opened now: the process may still have answers of another run."""
    reader.open("replay", "each mark is a newcomer")
    reader.page.get_by_role("slider").press("End")
    figure, word = reader.page.locator(".figures b").first, reader.page.locator(".sentences b").first
    return figure.inner_text(), word.inner_text()


def test_a_reader_who_wants_no_motion_sees_the_end(browser: Browser, small_pages: Pages) -> None:
    with reading(browser, small_pages.url) as reader:
        reader.page.emulate_media(reduced_motion="reduce")
        reader.open("replay", "each mark is a newcomer")
        expect(reader.page.locator(".controls button")).to_have_accessible_name("Play")
        expect(reader.page.get_by_role("slider")).to_have_value("1000")


@pytest.mark.parametrize("width", EACH_WIDTH)
def test_a_card_is_saved_as_an_image(browser: Browser, small_pages: Pages, width: str, tmp_path: Path) -> None:
    with reading(browser, small_pages.url, width) as reader:
        reader.open("person?user=user-001", "A card to share")
        with reader.page.expect_download() as png:
            reader.page.get_by_role("button", name="Save as PNG").click()
        with reader.page.expect_download() as svg:
            reader.page.get_by_role("button", name="Save as SVG").click()
        assert [one.value.suggested_filename for one in (png, svg)] == ["bengali-user-001.png", "bengali-user-001.svg"]
        png.value.save_as(tmp_path / "card.png")
        svg.value.save_as(tmp_path / "card.svg")
        pixels = matplotlib.image.imread(tmp_path / "card.png")
        assert pixels.shape[:2] == (HEIGHT, WIDTH)
        colours = np.unique((pixels[..., :3] * 255).astype(np.uint8).reshape(-1, 3), axis=0)
        assert len(colours) > 50, "letters and curves have soft edges"
        assert [12, 37, 54] in colours.tolist() and [255, 255, 255] in colours.tolist()
        assert "user-001" in (tmp_path / "card.svg").read_text()
        ElementTree.parse(tmp_path / "card.svg")
        assert reader.fits() and reader.problems == []


def test_a_card_and_a_replay_take_names_as_text(browser: Browser, small_pages: Pages) -> None:
    with reading(browser, small_pages.url) as reader:
        for user in AWKWARD[:3]:
            reader.open(f"person?user={quote(user)}", "A card to share")
            image = reader.page.get_by_role("img", name=f"What {user} gave to bengali")
            expect(image).to_be_visible()
            assert image.evaluate("one => one.decode().then(() => one.naturalWidth)") == WIDTH
        assert reader.problems == []


@pytest.mark.parametrize("language", ["en", "bn"])
def test_names_of_any_kind_fit_on_a_card(browser: Browser, language: str) -> None:
    page = browser.new_page()
    try:
        for user in [*AWKWARD, *LONG]:
            curve = [(0.0, 9.0), (1.0, 3.0)]
            facts = Facts(user * 2, user, 10**13, 0, 10**7, 123_456, 10_000, curve, [(0.2, 0.4)])
            page.set_content(card(facts, language).decode())
            edges = page.evaluate(EDGES)
            assert max(right for _, right in edges) <= RIGHT, (user, json.dumps(edges))
            lefts, rights = zip(*edges[3::2], strict=True)  # the figures, side by side
            assert all(right < left for right, left in zip(rights[:3], lefts[1:4], strict=True)), (user, edges)
    finally:
        page.close()
