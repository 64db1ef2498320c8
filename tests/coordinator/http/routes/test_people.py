"""People and machines, as the service tells of them; names that others chose stay text."""

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import httpx
import pytest
from markdown_it import MarkdownIt

from coordinator.http.badges import badge, readable, thanks
from coordinator.ledger.ingest import Contribution, SessionReport
from coordinator.ledger.ledger import Ledger
from coordinator.state_folder import UNNAMED
from tests.coordinator.http.conftest import Service
from tests.recorded_month.people import AWKWARD

SVG = "{http://www.w3.org/2000/svg}"


def add(ledger: Ledger, user: str, samples: int, **changes: object) -> None:
    values: dict[str, object] = {
        "session_id": f"{abs(hash(user)):032x}"[:32],
        "user": user,
        "peer_id": "12D3KooWSecretPeer",
        "client_mode": True,
        "device": "Tesla T4",
        "started": 1000.0,
        "last_seen": 1100.0,
        "step": 3,
        "contributions": (Contribution(user, 3, samples, 128 * samples, 9.5),),
        "country": "BD",
    }
    ledger.record([SessionReport(**values | changes)])  # type: ignore[arg-type]


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        assert all(name == "href" for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_about_a_person(client: httpx.Client, ledger: Ledger) -> None:
    person = client.get("/api/person", params={"user": "~boat"}).json()
    assert (person["user"], person["verified"], person["rank"], person["samples"]) == ("~boat", False, 2, 16)
    assert (person["share"], person["present"], person["first_seen"]) == (0.2, False, 1000.0)
    (day,) = person["days"]
    assert (day["samples"], day["share"], len(day["day"])) == (16, 0.2, 10)
    assert (person["streak"], person["longest_streak"], person["milestones"]) == (1, 1, [])
    (session,) = person["sessions"]
    assert (session["user"], session["samples"], session["device"]) == ("~boat", 16, "2 cores")
    assert session["pause"] == "hours"
    (same,) = [one for one in client.get("/api/sessions").json() if one["user"] == "~boat"]
    assert session == same
    assert "SecretPeer" not in json.dumps(person)


@pytest.mark.parametrize("path", ["person", "badge.svg", "card.svg"])
def test_nobody_of_that_name(client: httpx.Client, path: str) -> None:
    for user in ("nobody", "BOAT", "~", "a/../b"):
        answer = client.get(f"/api/{path}", params={"user": user})
        assert (answer.status_code, answer.json()["error"]) == (404, "not_found")
        assert answer.headers["cache-control"] == "no-store"
    for query in ("", f"?user={'x' * 101}"):
        assert client.get(f"/api/{path}{query}").status_code == 422


@pytest.mark.parametrize("user", AWKWARD)
def test_a_name_of_any_kind_has_a_page_and_a_badge(client: httpx.Client, ledger: Ledger, user: str) -> None:
    add(ledger, user, 1_234_567)
    assert client.get("/api/person", params={"user": user}).json()["user"] == user
    answer = client.get("/api/badge.svg", params={"user": user})
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert answer.headers["cache-control"] == "public, max-age=60"
    assert answer.headers["content-security-policy"] == "default-src 'none'"
    image = ElementTree.fromstring(answer.content)
    assert {one.tag for one in image.iter()} == {SVG + tag for tag in ("svg", "title", "rect", "g", "text")}
    words = [str(one.text) for one in image.iter(f"{SVG}text")]
    shown = user.replace("\u202e", "")
    assert words == ["test-run", f"\u2068{shown}\u2069: 1.2M samples, rank 1"]
    assert all(float(one.attrib["textLength"]) > 0 for one in image.iter(f"{SVG}text"))


def test_a_badge_has_room_for_all_that_it_says() -> None:
    image = ElementTree.fromstring(badge("r", "নদী-漢字", 999, 1200))
    assert image.attrib["aria-label"] == "r | \u2068নদী-漢字\u2069: 999 samples, rank 1,200"
    texts = list(image.iter(f"{SVG}text"))
    assert float(texts[-1].attrib["x"]) + float(texts[-1].attrib["textLength"]) < float(image.attrib["width"])


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (99_949, "99.9k"),
        (123_456, "123k"),
        (999_499, "999k"),
        (999_999, "1.0M"),
        (1_234_567, "1.2M"),
        (7 * 10**12, "7.0T"),
    ],
)
def test_counts_are_short(count: int, shown: str) -> None:
    assert readable(count) == shown


def test_thanks_are_for_everybody_who_brought_something(client: httpx.Client, ledger: Ledger) -> None:
    add(ledger, "idle", 0)
    answer = client.get("/api/thanks.md")
    assert answer.headers["content-type"].startswith("text/markdown")
    page = Tags(MarkdownIt().render(answer.text))
    assert page.tags == ["h2", "p", "p", "a"]
    assert page.links == ["https://huggingface.co/asha"]
    assert "test-run was pretrained by 2 volunteers. Thank you!" in page.text
    assert "asha,\n~boat" in page.text and "idle" not in page.text


def test_who_does_not_want_to_be_named_is_counted_alone(service: Service) -> None:
    unnamed = service.context.folder / UNNAMED
    unnamed.write_text("@Asha\n")
    page = service.client.get("/api/thanks.md").text
    assert page.endswith("was pretrained by 2 volunteers. Thank you!\n\n\\~boat,\nand one more\n")
    assert thanks("r", [], 1) == "## Thanks\n\nr was pretrained by one volunteer. Thank you!\n"


@pytest.mark.parametrize("kind", ["commonmark", "js-default"])
def test_names_in_the_thanks_are_text(kind: str) -> None:
    awkward = [*AWKWARD, "~1. www.example.com", "~http://example.com/x", "~# h", "~- [ ] x", "~![i](data:x)", "~$a$ @b"]
    written = thanks("test-run", [(user, False) for user in awkward])
    page = Tags(MarkdownIt(kind).render(written))
    assert page.tags == ["h2", "p", "p"]
    assert not page.links
    for user in awkward:
        assert " ".join(user.replace("\u202e", "").split()) in page.text


def test_a_name_that_only_says_that_it_is_of_the_hub_makes_no_other_link() -> None:
    page = Tags(MarkdownIt().render(thanks("r", [("a/../../b) [x](javascript:alert(1)", True)])))
    (link,) = page.links
    assert link is not None and link.startswith("https://huggingface.co/a%2F..")


def test_nobody_to_thank_yet() -> None:
    assert Tags(MarkdownIt().render(thanks("r", []))).text.startswith("Thanks\nNobody has contributed")


def test_machines_tell_nobodys_name(client: httpx.Client, ledger: Ledger) -> None:
    add(ledger, "user-x", 4, country="BD")
    add(ledger, "user-y", 4, country="GB")
    add(ledger, "user-z", 4, country="GB")
    machines = client.get("/api/machines").json()
    assert [(one["device"], one["sessions"], one["samples"]) for one in machines["devices"]] == [
        ("2 cores", 2, 80),
        ("Tesla T4", 3, 12),
    ]
    assert machines["kinds"] == 2
    assert machines["client_mode"] == {"sessions": 3, "present": 0, "samples": 12}
    assert machines["reachable"] == {"sessions": 2, "present": 0, "samples": 80}
    assert machines["countries"] == [{"country": "GB", "people": 2}, {"country": "BD", "people": 1}]
    assert "user" not in json.dumps(machines)
    for path in ("sessions", "leaderboard", "person?user=user-x"):
        assert '"BD"' not in client.get(f"/api/{path}").text
