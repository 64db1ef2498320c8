"""Decisions without effects: what is due, what an organizer is warned of."""

from pathlib import Path

import pytest

from coordinator.main import warnings_about
from coordinator.main_loop import is_due
from swarm.run_file import parse_run


@pytest.mark.parametrize(
    ("step", "last", "due"),
    [
        (0, -1, True),  # a run that begins
        (3, -1, True),  # never done, whatever the step
        (0, 0, False),
        (9, 0, False),
        (10, 0, True),
        (11, 0, True),  # the multiple itself was passed between two looks
        (11, 10, False),
        (25, 11, True),
        (99, 90, False),
        (100, 90, True),  # the run's end
        (95, 100, False),  # the swarm has gone back
    ],
)
def test_something_is_due_when_a_multiple_of_ten_was_reached(step: int, last: int, due: bool):
    assert is_due(step, last, every=10, total=100) is due


def test_the_last_step_is_due_even_if_it_is_no_multiple():
    assert is_due(97, 90, every=10, total=97)
    assert not is_due(97, 97, every=10, total=97)


@pytest.mark.parametrize(
    ("host", "url", "source", "words"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080", {"path": "text.txt"}, []),  # a run of this machine alone, as the demo's
        ("localhost", "http://localhost:8080", {"path": "text.txt"}, []),
        ("0.0.0.0", "https://run.example.org", {"hub": "some/text"}, []),
        ("0.0.0.0", "http://127.0.0.1:8080", {"hub": "some/text"}, ["access.url"]),
        ("::", "http://[::1]:8080", {"hub": "some/text"}, ["access.url"]),
        ("0.0.0.0", "http://127.0.0.1:8080", {"path": "text.txt"}, ["access.url", "text.txt"]),
        ("127.0.0.1", "https://run.example.org", {"path": "text.txt"}, ["text.txt"]),  # behind a reverse proxy
    ],
)
def test_an_organizer_is_warned_of_what_keeps_others_out(host: str, url: str, source: dict[str, str], words: list[str]):
    content = {"name": "test", "data": {"train": [source]}, "access": {"open": True, "host": host}}
    warnings = warnings_about(parse_run(content, Path("run.yaml")), url)
    assert [word in warning for word, warning in zip(words, warnings, strict=True)] == [True] * len(words)
