"""The link, as people paste it."""

import pytest

from app.join.address import coordinator_url, is_private
from app.join.problems import ProblemKind
from tests.support.problems import raises_problem


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("https://run.example.org/", "https://run.example.org"),
        ("  run.example.org  ", "https://run.example.org"),
        ("run.example.org:443", "https://run.example.org:443"),
        ("নদী.বাংলা", "https://নদী.বাংলা"),
        ("run.example.org:8080", "http://run.example.org:8080"),
        ("localhost:8080/", "http://localhost:8080"),
        ("192.0.2.1", "http://192.0.2.1"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("http://run.example.org", "http://run.example.org"),
        ("https://example.org/run/", "https://example.org/run"),
        ("HTTPS://Example.org/?x=1#top", "https://example.org"),
        ("workstation:8080", "http://workstation:8080"),
        ("https://run.example.org/join.sh", "https://run.example.org"),
        ("https://example.org/run/join.ipynb", "https://example.org/run"),
    ],
)
def test_a_url_is_made_whole(given: str, meant: str):
    assert coordinator_url(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        "",
        "  ",
        "two words",
        "ftp://example.org",
        "file:///etc/passwd",
        "http://",
        "http://user:secret@example.org",
        "example.org:port",
        "example.org:99999",
        "example.org:0",
        "http://exa\x1bmple.org",
        "http://[::1",
        "http:/192.0.2.1:8080",
        "-?-",
        "/ip4/127.0.0.1/tcp/31337/p2p/Qm",
        "runs/demo.yaml",
        "/home/asha/link",
    ],
)
def test_what_is_no_url_is_refused_in_one_line(given: str):
    with raises_problem(ProblemKind.BAD_URL) as problem:
        coordinator_url(given)
    assert str(problem.value).isprintable()
    assert problem.value.exit_status == 20
    assert ("a peer's address" in str(problem.value)) == given.startswith("/ip4/")


def test_who_can_read_a_connection():
    assert is_private("https://example.org")
    assert is_private("http://127.0.0.1:8080")
    assert is_private("http://localhost")
    assert not is_private("http://192.0.2.1:8080")
