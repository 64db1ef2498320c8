"""A reader with a real browser, who notices whatever goes wrong in it."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, Route, expect

from tests.support.waiting import PATIENCE

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
EACH_WIDTH = ["desktop", pytest.param("phone", marks=pytest.mark.faults)]  # for what looks alike
SCREENSHOTS = Path("out/screenshots")
TALLEST = 6000  # pixels of a screenshot
PICTURE = b'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><circle cx="4" cy="4" r="4"/></svg>'
DRAWN = """() => !document.querySelector('[data-testid=stSkeleton]')
    && [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].every(one => one.querySelector('canvas, svg'))"""


def installed_browser() -> str | None:
    """The path of the system's Chromium."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Reader:
    """A page in a browser, and what went wrong in it. Nothing outside this machine is reached."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def open(self, path: str, ready: str) -> None:
        """Load a page by its address, and wait for a text or a selector on it."""
        self.page.goto(f"{self.url}/{path}")
        self.see(ready)

    def see(self, text: str) -> None:
        """Wait until it can be read on the page; tables have their cells once more, hidden, for screen readers."""
        self.page.get_by_text(text).filter(visible=True).first.wait_for()

    def settle(self) -> None:
        """Wait until everything is drawn: nothing is a skeleton any more, and charts have marks."""
        self.page.wait_for_function(DRAWN)

    def sees_whole(self, text: str) -> None:
        """Wait until a page with this text is drawn; nothing failed, and nothing sticks out to the right."""
        self.see(text)
        self.settle()
        assert not self.page.locator("[data-testid=stException]").count()
        assert self.fits(), f"{self.page.url} is wider than the screen"

    def turn_to(self, title: str) -> None:
        """Another page, by the navigation, which a phone hides behind a button."""
        unfold = self.page.locator("[data-testid=stExpandSidebarButton]")
        if unfold.is_visible():
            unfold.click()
        self.page.get_by_role("link", name=title, exact=True).first.click()
        fold = self.page.locator("[data-testid=stSidebarCollapseButton] button")
        if fold.is_visible():
            fold.click()

    def picture(self, path: Path) -> None:
        """The whole page, for people to look at, where `SAHAJ_PICTURES` is set: drawing it takes seconds."""
        if not os.environ.get("SAHAJ_PICTURES"):
            return
        size = self.page.viewport_size
        assert size is not None
        height = self.page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
        self.page.set_viewport_size({"width": size["width"], "height": min(TALLEST, max(size["height"], height))})
        self.page.wait_for_timeout(700)  # charts take the new size
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path, animations="disabled")
        self.page.set_viewport_size(size)

    def fits(self) -> bool:
        """Whether nothing sticks out to the right."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not looking_for_base(str(message.location.get("url", ""))):
            self.problems.append(f"console: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _route(self, route: Route, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("data", "blob") or parts.hostname == "127.0.0.1":
            route.continue_()
            return
        self.outside.append(request.url)
        route.fulfill(body=PICTURE, content_type="image/svg+xml")


def looking_for_base(url: str) -> bool:
    """Whether Streamlit tries if the app begins at the address of one of its pages: a 404 is its answer."""
    path = urlsplit(url).path
    return path.count("/") > 2 and path.endswith(("/_stcore/health", "/_stcore/host-config"))


@contextlib.contextmanager
def reading(
    browser: Browser, url: str, width: str = "desktop", scheme: str = "light", zone: str = "Asia/Dhaka"
) -> Iterator[Reader]:
    """A new reader at a width, with a colour scheme and a time zone."""
    wide, high = WIDTHS[width]
    context = browser.new_context(
        viewport={"width": wide, "height": high},
        color_scheme="dark" if scheme == "dark" else "light",
        timezone_id=zone,
        locale="en-GB",
    )
    context.set_default_timeout(1000 * PATIENCE)
    expect.set_options(timeout=1000 * PATIENCE)
    page = context.new_page()
    reader = Reader(page, url)
    page.on("console", reader._console)
    page.on("pageerror", lambda error: reader.problems.append(f"script: {error}"))
    page.on("dialog", reader._dialog)
    context.route("**/*", reader._route)
    try:
        yield reader
    finally:
        context.close()
