"""The board of teams, a team's page, and the team of a person, in a real browser."""

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from dashboard import texts
from tests.dashboard.browsing import EACH_WIDTH, SCREENSHOTS, reading
from tests.dashboard.conftest import Pages
from tests.recorded_month.serving import Served

pytestmark = pytest.mark.xdist_group("browser")  # one Streamlit and one browser for all of them

RIVER, WIDE = "নদীর মানুষ", "W" * 30


@pytest.fixture(scope="module")
def member(small: Served) -> str:
    """Somebody who is in a team of the small run; another team has the longest name."""
    teams, users = small.context.ledger.teams, [one.user for one in small.context.ledger.leaderboard()]
    teams.create(users[3], RIVER)
    teams.create(users[4], WIDE)
    return users[3]


@pytest.mark.parametrize("width", EACH_WIDTH)
@pytest.mark.parametrize(
    ("language", "teams", "named"),
    [("en", "Teams", "The team"), pytest.param("bn", "দল", "দল", marks=pytest.mark.faults)],
)
def test_a_team_is_on_the_board_on_its_page_and_on_its_members(
    browser: Browser, pages: Pages, small: Served, member: str, width: str, language: str, teams: str, named: str
) -> None:
    pages.switch.lead_to(small.url)
    with reading(browser, pages.url, width, "dark") as reader:
        reader.open(f"people?lang={language}", "user-")
        reader.page.get_by_role("radio", name=teams, exact=True).or_(
            reader.page.get_by_role("button", name=teams, exact=True)
        ).first.click()
        reader.page.locator("[data-testid=stDataFrame]").first.wait_for()
        reader.sees_whole(teams)
        reader.picture(SCREENSHOTS / f"teams-{language}-{width}.png")
        reader.open(f"person?user={quote(member)}&lang={language}", RIVER)
        reader.sees_whole(named)
        reader.page.get_by_text(RIVER).first.click()
        reader.page.wait_for_url("**/team**")
        reader.sees_whole(RIVER)
        reader.open(f"team?name={WIDE}&lang={language}", texts.name(WIDE))
        reader.sees_whole(texts.name(WIDE))
        reader.open(f"team?name=nothing&lang={language}", "nothing")
        reader.sees_whole("nothing")
