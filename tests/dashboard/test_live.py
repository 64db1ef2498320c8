"""The pages in a real browser, before the coordinator of a swarm that trains."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from app.organizing.admin import admin
from coordinator.state_folder import ADMIN_KEY
from tests.dashboard.browsing import reading
from tests.dashboard.conftest import Pages
from tests.peers.conftest import corpus as corpus
from tests.peers.conftest import small_swarm as small_swarm
from tests.peers.conftest import tokenizer_folder as tokenizer_folder
from tests.support.ports import free_port
from tests.support.small_swarm import SmallSwarm
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.swarm
AWAY = "The coordinator, the server that keeps this run's figures, cannot be reached."
OVER = "The organizer has ended this run"
READY = {
    "Overview": "Who makes it happen",
    "Learning": "Rounds that failed",
    "People": "Asha of the delta",
    "Machines": "client mode",
    "Organizer": "Admin key",
}


def test_the_pages_follow_a_swarm_from_its_first_step_to_its_end(
    browser: Browser, pages: Pages, small_swarm: Callable[..., SmallSwarm]
) -> None:
    swarm = small_swarm(access={"open": True, "port": free_port()}, target_batch_size=2048)
    pages.switch.lead_to(swarm.url)
    with reading(browser, pages.url) as reader:
        reader.open("", "Waiting for people")
        trainer = swarm.trainer("asha", asks_for="Asha of the delta")
        card = reader.page.locator("[data-testid=stMetric]", has_text="Global step")
        for least in (1, 2):
            expect(card).to_contain_text(re.compile(rf"Global step\s*([{least}-9]|\d\d)"))
        assert reader.problems == []
        for title, ready in READY.items():
            reader.turn_to(title)
            reader.sees_whole(ready)
        reader.turn_to("Overview")
        reader.see(READY["Overview"])
        swarm.peers[0].kill()
        reader.see(AWAY)
        swarm.coordinator()
        expect(reader.page.get_by_text(AWAY)).to_have_count(0)
        admin(swarm.url, swarm.state / ADMIN_KEY, "stop")
        reader.see(OVER)
        assert trainer.process.wait(PATIENCE) == 0
        assert reader.problems == []
