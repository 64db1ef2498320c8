"""A person pauses machines in a real browser, by the link that `sahaj me` prints."""

import re

import pytest
from playwright.sync_api import Browser, expect

from coordinator.access.person_key import issue_key
from dashboard.language import NAMES
from tests.dashboard.browsing import SCREENSHOTS, reading
from tests.dashboard.conftest import Pages
from tests.recorded_month.serving import Served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("browser")


def somebody(small: Served, machines: int = 2) -> str:
    """A person with some machines of which one is there now."""
    people = small.context.ledger.people
    for leader in small.context.ledger.leaderboard():
        found = people.machines(leader.user, 200)
        if len(found) >= machines and found[0].present:
            return leader.user
    raise AssertionError("nobody in the recorded run has so many machines")


@pytest.mark.parametrize(
    ("width", "scheme", "language"),
    [
        ("phone", "light", "bn"),
        ("phone", "dark", "en"),
        pytest.param("desktop", "light", "en", marks=pytest.mark.faults),
        pytest.param("desktop", "dark", "bn", marks=pytest.mark.faults),
    ],
)
def test_machines_are_paused_and_resumed_by_the_link(
    browser: Browser, pages: Pages, small: Served, width: str, scheme: str, language: str
) -> None:
    pages.switch.lead_to(small.url)
    small.report()
    user = somebody(small)
    machines = small.context.ledger.people.machines(user, 200)
    key, _ = issue_key(small.context.authority, small.context.run.name, user, None)
    with reading(browser, pages.url, width, scheme) as reader:
        reader.open(f"my_machines?lang={language}&key={key}", NAMES[language])
        mine = reader.page.locator(".st-key-my-machines")
        expect(mine.get_by_role("button").first).to_be_visible()
        expect(reader.page).not_to_have_url(re.compile("key="))
        paused = mine.locator("[class*='st-key-resume-'] button")
        expect(paused).to_have_count(0)
        mine.locator(f".st-key-pause-{machines[0].peer_id} button").click()
        expect(paused).to_have_count(2)
        reader.sees_whole(NAMES[language])
        reader.picture(SCREENSHOTS / f"my-machines-{language}-{width}-{scheme}.png")

        def are_large() -> bool:  # the page is drawn again and again, and a button that goes has no height
            buttons = mine.get_by_role("button")
            heights = buttons.evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
            return bool(heights) and min(heights) >= 48

        wait_until(are_large, "buttons that are large enough for a thumb")
        mine.locator(".st-key-pause-all button").click()
        expect(paused).to_have_count(len(machines) + 1)
        mine.locator(".st-key-resume-all button").click()
        expect(paused).to_have_count(0)
        kept = reader.page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
        assert key not in kept and key not in reader.page.content()
        assert reader.problems == []
    assert key not in pages.log.read_text(errors="replace")


@pytest.mark.parametrize(
    ("width", "language"), [("phone", "bn"), pytest.param("desktop", "en", marks=pytest.mark.faults)]
)
def test_without_a_key_the_page_says_how_to_get_one(
    browser: Browser, pages: Pages, small: Served, width: str, language: str
) -> None:
    pages.switch.lead_to(small.url)
    with reading(browser, pages.url, width) as reader:
        reader.open(f"my_machines?lang={language}", "sahaj me http")
        reader.sees_whole(NAMES[language])
        reader.picture(SCREENSHOTS / f"my-machines-no-key-{language}-{width}.png")
        reader.open(f"my_machines?lang={language}&key=forged", "sahaj me http")
        expect(reader.page.locator("[data-testid=stAlert]")).to_be_visible()
        assert reader.problems == []
