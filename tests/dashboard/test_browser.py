"""The pages in a real browser, from a recorded month of 300 people; with SAHAJ_PICTURES=1 also in out/screenshots."""

import contextlib
import datetime
import re
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from dashboard import texts
from dashboard.language import NAMES, SOURCE
from tests.dashboard.browsing import EACH_WIDTH, SCREENSHOTS, reading
from tests.dashboard.conftest import Pages
from tests.recorded_month.people import AWKWARD
from tests.recorded_month.serving import Served

pytestmark = pytest.mark.xdist_group("browser")  # one month, one Streamlit and one browser for all of them

BANNER = "[data-testid=stAlert]"
PAGES = {  # title: what is there when it is ready
    "Overview": "What it fills in",
    "Learning": "Rounds that failed",
    "People": "Thank you",
    "Machines": "Where people are",
    "Replay": "each mark is a newcomer",
    "Organizer": "Admin key",
}
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(16, 23, 30)"}


@pytest.fixture
def month_pages(pages: Pages, month: Served) -> Pages:
    """The pages before the recorded month."""
    pages.switch.lead_to(month.url)
    return pages


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        ("desktop", "light"),
        pytest.param("phone", "dark", marks=pytest.mark.faults),  # as in Bengali below
        pytest.param("desktop", "dark", marks=pytest.mark.faults),
        pytest.param("phone", "light", marks=pytest.mark.faults),
    ],
)
def test_every_page_is_whole(browser: Browser, month_pages: Pages, width: str, scheme: str) -> None:
    with reading(browser, month_pages.url, width, scheme) as reader:
        reader.open("", "bengali")
        for title, ready in PAGES.items():
            reader.turn_to(title)
            reader.sees_whole(ready)
            reader.picture(SCREENSHOTS / f"{title.lower()}-{width}-{scheme}.png")
        ground = "getComputedStyle(document.querySelector('.stApp')).backgroundColor"
        assert reader.page.evaluate(ground) == GROUNDS[scheme]
        reader.open("person?user=user-001", "Share of each day")
        reader.sees_whole("Badge")
        reader.picture(SCREENSHOTS / f"person-{width}-{scheme}.png")
        assert reader.problems == []
        assert all(url.startswith("https://huggingface.co/avatars/") for url in reader.outside)


@pytest.mark.parametrize("width", EACH_WIDTH)
def test_experts_and_their_hosts_are_seen_whole(browser: Browser, pages: Pages, hosted: Served, width: str) -> None:
    pages.switch.lead_to(hosted.url)
    with reading(browser, pages.url, width) as reader:
        reader.open("people", "Served now")
        reader.sees_whole("Thank you")
        reader.picture(SCREENSHOTS / f"experts-{width}.png")
        assert reader.problems == []


def test_figures_move_while_nothing_is_drawn_anew(browser: Browser, month_pages: Pages) -> None:
    with reading(browser, month_pages.url) as reader:
        reader.open("", "What it fills in")
        reader.settle()
        progress = reader.page.get_by_text("The next step:").first
        marked = """document.querySelectorAll('canvas, [data-testid=stMetric], [data-testid=stProgress], h1')"""
        for _ in range(3):  # on a busy machine the page is drawn once more at its beginning, when all of it was there
            reader.page.evaluate(f"{marked}.forEach(node => node.dataset.seen = '1')")
            before = reader.page.evaluate(f"[{marked}.length, document.querySelectorAll('*').length]")
            for _ in range(2):
                text = progress.inner_text()
                expect(progress).not_to_have_text(text)
            kept = reader.page.evaluate("document.querySelectorAll('[data-seen]').length")
            after = reader.page.evaluate(f"[{marked}.length, document.querySelectorAll('*').length]")
            if kept == before[0] == after[0] and abs(after[1] - before[1]) < 20:
                break
        assert kept == before[0] == after[0]
        assert abs(after[1] - before[1]) < 20
        assert reader.problems == []


def test_hostile_names_and_announcements_are_only_text(browser: Browser, month_pages: Pages, month: Served) -> None:
    hostile = "<b>Tea</b> <img src=x onerror=alert(1)> [x](javascript:alert(3)) :material/verified: www.evil.example"
    month.context.notices.announce(hostile)
    try:
        with reading(browser, month_pages.url) as reader:
            reader.open("people", "<b>Tea</b>")
            reader.see("Thank you")
            reader.settle()
            wall = reader.page.get_by_text('~"><script>').first.inner_text().replace(texts.JOINER, "")
            for written in (
                "~<b>Eve</b> [x](javascript:alert(1))",
                "~<img src=x onerror=alert(2)>",
                ":red[red]",
                "$x^2$",
            ):
                assert written in wall
            assert texts.JOINER in reader.page.locator(BANNER).first.inner_text()
            for user in AWKWARD[:5]:
                nothing_came_of_it(reader.page)
                reader.open(f"person?user={quote(user)}", "Share of each day")
                expect(reader.page.locator("h2")).to_contain_text(user[:12])
            nothing_came_of_it(reader.page)
            assert reader.problems == []
    finally:
        month.context.notices.announce("")


def nothing_came_of_it(page: Page) -> None:
    main = page.locator("[data-testid=stMain]")
    assert main.locator("a[href^='javascript'], a[href*='evil'], img[src='x'], script, b").count() == 0
    assert main.locator(BANNER).locator("[data-testid=stIconMaterial]").count() <= 1  # the megaphone


def test_times_are_those_of_the_readers_zone(browser: Browser, month_pages: Pages, month: Served) -> None:
    zone = "America/Los_Angeles"  # far from UTC, and from where other readers are
    with reading(browser, month_pages.url, zone=zone) as reader:
        reader.open("", "Time left")
        card = reader.page.locator("[data-testid=stMetric]", has_text="Time left")
        expect(card).to_contain_text(":")
        shown = card.locator("[data-testid=stMetricDelta]").inner_text()
    there = datetime.datetime.fromtimestamp(month.ask("progress").json()["finish"], ZoneInfo(zone))
    hours = {f"{(there + datetime.timedelta(hours=late)):%H}" for late in range(-3, 4)}  # the estimate moves
    assert shown.split()[-1].split(":")[0] in hours


def test_the_keyboard_reaches_everything(browser: Browser, month_pages: Pages) -> None:
    with reading(browser, month_pages.url) as reader:
        reader.open("", "Who makes it happen")
        reader.settle()
        missing = {
            "Learning",
            "People",
            "Machines",
            "My machines",
            "Organizer",
            "Colab",
            "Kaggle",
            "Who makes it happen",
        }
        for _ in range(400):  # one round takes 40; the focus begins anew when what has it is drawn again
            reader.page.keyboard.press("Tab")
            reached = reader.page.evaluate("document.activeElement.innerText || document.activeElement.ariaLabel")
            missing -= {wanted for wanted in missing if wanted in (reached or "")}
            if not missing:
                break
        assert not missing, f"{missing} cannot be reached"


def test_a_row_of_the_leaderboard_leads_to_a_page(browser: Browser, month_pages: Pages) -> None:
    with reading(browser, month_pages.url) as reader:
        reader.open("people", "Leaderboard")
        reader.settle()
        table = reader.page.locator("[data-testid=stDataFrame]").first
        link = reader.page.get_by_text(re.compile("The page of "))
        for _ in range(8):  # a click on a table that is not drawn yet chooses nobody; a second one takes it back
            table.click(position={"x": 16, "y": 54})
            with contextlib.suppress(PlaywrightTimeout):
                link.wait_for(timeout=30_000)
                break
        link.click()
        reader.see("Share of each day")
        assert "/person?user=" in reader.page.url
        assert reader.problems == []


def test_the_organizer_works_in_the_browser(browser: Browser, pages: Pages, decided: Served) -> None:
    key = decided.context.admin_key
    pages.switch.lead_to(decided.url)
    with reading(browser, pages.url) as reader:
        reader.open("organizer", "Admin key")
        field = reader.page.get_by_label("Admin key")
        assert field.get_attribute("type") == "password"
        field.fill("f" * 64)
        reader.page.get_by_role("button", name="Open").click()
        reader.see("not the admin key")
        field.fill(key)
        reader.page.get_by_role("button", name="Open").click()
        reader.see("Flags")
        reader.page.get_by_label("Text").fill("Back at <i>nine</i>")
        reader.page.get_by_role("button", name="Announce").click()
        expect(reader.page.locator(BANNER, has_text="Back at <i>nine</i>")).to_be_visible()
        reader.picture(SCREENSHOTS / "desk-desktop.png")
        kept = reader.page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert key not in kept
        assert key not in reader.page.content()
        assert reader.problems == []
    assert key not in pages.log.read_text(errors="replace")


@pytest.mark.parametrize("language", [code for code in NAMES if code != SOURCE])
@pytest.mark.parametrize(
    ("width", "scheme"),
    [("phone", "dark"), pytest.param("desktop", "light", marks=pytest.mark.faults)],
)
def test_every_page_is_whole_in_every_language(
    browser: Browser, month_pages: Pages, language: str, width: str, scheme: str
) -> None:
    with reading(browser, month_pages.url, width, scheme) as reader:
        for name in PAGES:
            reader.open(f"{'' if name == 'Overview' else name.lower()}?lang={language}", "bengali")
            reader.sees_whole(NAMES[language])
            reader.picture(SCREENSHOTS / f"{name.lower()}-{language}-{width}-{scheme}.png")
        assert reader.problems == []
