"""What is said of a person's machines."""

import pytest

from dashboard.api.me import MyMachine
from dashboard.views.my_machines import figures, status

NOW = 1_800_000_000.0


def machine(doing: str, pause: str = "", *, ordered: bool = False) -> MyMachine:
    return MyMachine(
        peer_id="laptop",
        doing=doing,
        pause=pause,
        ordered=ordered,
        last_seen=NOW - 3600,
        samples=1_234_567,
        samples_per_second=12.0,
    )


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (machine("training"), "Training"),
        (machine("training", ordered=True), "Will pause in a moment"),
        (machine("pausing", "paused", ordered=True), "Paused by you"),
        (machine("pausing", "battery"), "Paused: running on battery"),
        (machine("pausing", "paused"), "Paused"),
        (machine("away"), "Away"),
        (machine("away", ordered=True), "Paused by you"),
        (machine("something newer"), "Away"),
    ],
)
def test_what_a_machine_does(seen: MyMachine, said: str) -> None:
    assert status(seen)[0] == said


def test_what_it_has_done_and_how_fast_it_is() -> None:
    done = "1.23\N{NARROW NO-BREAK SPACE}M samples"
    assert figures(machine("training"), NOW) == [done, "12 samples a second"]
    assert figures(machine("away"), NOW) == [done, "last seen 60 minutes ago"]
