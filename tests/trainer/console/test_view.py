"""The volunteer's view: everything is in it, nothing from outside can break it, and it stays calm."""

import io
import re
import threading
from dataclasses import replace

import pytest
from rich.console import Console

from trainer.console.terminal_text import width
from trainer.console.view import ConsoleView, View, picture, plain_line, sparkline

VIEW = View(
    run="bengali",
    name="rosa",
    step=1234,
    total_steps=125_000,
    step_samples=1024,
    target_batch_size=4096,
    peers=12,
    own_samples=9876,
    swarm_samples=5_054_464,
    loss=4.3214,
    samples_per_second=45.2,
    swarm_samples_per_second=512.4,
    averaging_rounds=31,
    averaging_failures=0,
    data_wait_fraction=0.003,
    client_mode=False,
    status="computing",
)
HOSTILE = "[red]rosa[/red] \x1b[2J\r\n\x07\u202eevil"
LONG_BENGALI = "কিংকর্তব্যবিমূঢ় স্বেচ্ছাসেবকের ল্যাপটপ " * 5
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def output(*, terminal: bool, columns: int = 80) -> Console:
    return Console(file=io.StringIO(), width=columns, height=40, force_terminal=terminal, color_system="standard")


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def drawn(
    view: View,
    *,
    columns: int = 80,
    height: int = 40,
    trend: tuple[float, ...] = (),
    messages: tuple[str, ...] = (),
):
    """The lines of the live view, without colours."""
    console = Console(file=io.StringIO(), width=columns, color_system=None)
    console.print(picture(view, trend, messages, columns, height))
    return text_of(console).splitlines()


def frames(console: Console) -> int:
    """How often the live view was drawn."""
    return text_of(console).count("Global step")


def say_hello(shown: ConsoleView, times: int) -> None:
    for _ in range(times):
        shown.message("hello")


# in a terminal


def test_the_live_view_shows_everything():
    text = "\n".join(drawn(replace(VIEW, client_mode=True), trend=(5.0, 4.5, 4.3), messages=("a peer left",)))
    for part in (
        "bengali  rosa, client mode",
        "Global step 1,234 of 125,000",
        "1,024 / 4,096 samples",
        "computing",
        "Loss      4.321 █▃▁",
        "12 peers",
        "9,876 samples, 45/s",
        "5,054,464 samples, 512/s",
        "31 rounds",
        "0.3%",
        "a peer left",
    ):
        assert part in text


@pytest.mark.parametrize(
    "name", ["rosa", LONG_BENGALI, HOSTILE * 9, "名前" * 60], ids=["short", "Bengali", "hostile", "wide"]
)
@pytest.mark.parametrize("columns", [20, 30, 43, 59, 64, 80, 200])
def test_no_line_of_the_live_view_is_wider_than_the_terminal(columns, name):
    view = replace(VIEW, name=name, status=name, client_mode=True)
    lines = drawn(view, columns=columns, height=30, trend=tuple(map(float, range(24))), messages=(name,) * 3)
    assert max(map(width, lines)) <= columns
    assert len(lines) <= 30


@pytest.mark.parametrize(("samples", "length"), [(0, 0), (2048, 38), (4096, 76), (9999, 76)])
def test_the_bar_is_as_long_as_the_samples_are_many(samples, length):
    assert "".join(drawn(replace(VIEW, step_samples=samples))).count("━") == length


def test_the_newest_view_stays_when_the_block_ends():
    console = output(terminal=True)
    with ConsoleView(console) as shown:
        shown.update(VIEW)
        shown.update(replace(VIEW, own_samples=777))
    assert "777 samples" in text_of(console).rpartition("Global step")[2]
    assert text_of(console).endswith("\x1b[?25h")  # the cursor is back


def test_the_view_is_redrawn_a_few_times_a_second_however_often_it_changes():
    console = output(terminal=True)
    with ConsoleView(console) as shown:
        for samples in range(500):
            shown.update(replace(VIEW, own_samples=samples))
    assert 2 <= frames(console) < 50


@pytest.mark.parametrize(
    ("columns", "height", "older", "figures"),
    [(80, 10, False, True), (80, 7, False, False), (80, 3, False, False), (45, 24, True, True), (45, 10, False, False)],
)
def test_the_newest_message_is_whole_in_a_terminal_of_any_height(columns: int, height: int, older: bool, figures: bool):
    long = " ".join(f"word{number}" for number in range(22)) + " and you need to do nothing"
    lines = drawn(VIEW, columns=columns, height=height, messages=("first", "second", long))
    assert len(lines) <= height
    assert long in " ".join(" ".join(lines).split())
    assert (any("second" in line for line in lines), any("Averaging" in line for line in lines)) == (older, figures)


def test_messages_stand_below_the_view_and_the_newest_three_stay():
    console = output(terminal=True)
    with ConsoleView(console) as shown:
        shown.message("loading the tokenizer")
        shown.update(VIEW)
        for number in range(5):
            shown.message(f"message {number}")
    before, _, last = text_of(console).rpartition("Global step")
    assert before.startswith("loading the tokenizer\n")
    assert "message 1" not in last
    assert last.index("message 2") < last.index("message 3") < last.index("message 4")


def test_the_loss_leaves_one_point_for_each_global_step():
    console = output(terminal=True)
    with ConsoleView(console) as shown:
        for step, loss in [(1, 9.0), (1, 8.0), (2, 4.0), (2, float("nan")), (3, 0.0)]:
            shown.update(replace(VIEW, step=step, loss=loss))
    assert "█▅▁" in text_of(console).rpartition("Global step")[2]


def test_failures_and_waiting_for_data_are_set_off():
    console = output(terminal=True)
    console.print(picture(replace(VIEW, averaging_failures=2, data_wait_fraction=0.25), (), (), 80))
    assert "\x1b[33m31 rounds, 2 failed" in text_of(console)
    assert "\x1b[33m25.0%" in text_of(console)
    console = output(terminal=True)
    console.print(picture(VIEW, (), (), 80))
    assert "\x1b[33m" not in text_of(console)


def test_an_error_in_the_block_gives_the_terminal_back():
    console = output(terminal=True)
    with pytest.raises(KeyboardInterrupt), ConsoleView(console) as shown:
        shown.update(VIEW)
        raise KeyboardInterrupt
    assert text_of(console).endswith("\x1b[?25h")


# elsewhere


def test_without_a_terminal_there_is_a_line_at_once_and_one_at_the_end():
    console = output(terminal=False)
    with ConsoleView(console, plain_every=3600) as shown:
        for samples in range(100):
            shown.update(replace(VIEW, own_samples=samples))
    first, last = text_of(console).splitlines()
    assert "you 0 samples" in first
    assert "you 99 samples" in last


def test_without_a_terminal_each_view_has_a_line_when_its_time_has_come():
    console = output(terminal=False)
    with ConsoleView(console, plain_every=0) as shown:
        for samples in range(5):
            shown.update(replace(VIEW, own_samples=samples))
    assert len(text_of(console).splitlines()) == 5


def test_without_a_terminal_messages_are_lines_at_once():
    console = output(terminal=False)
    with ConsoleView(console, plain_every=3600) as shown:
        shown.update(VIEW)
        shown.message("a peer left")
        assert text_of(console).splitlines()[1] == "a peer left"


def test_a_plain_line_is_one_line_without_colours_and_holds_everything():
    console = output(terminal=False, columns=30)
    with ConsoleView(console) as shown:
        shown.update(VIEW)
    assert text_of(console) == (
        "global step 1,234 of 125,000 | 25% of the next step | loss 4.321 | 12 peers | you 9,876 samples, 45/s | "
        "swarm 5,054,464 samples, 512/s | averaging 31 rounds | waiting for text 0.3% | computing\n"
    )


# both


@pytest.mark.parametrize("terminal", [True, False])
def test_text_from_outside_is_shown_as_it_is_and_steers_nothing(terminal):
    console = output(terminal=terminal)
    with ConsoleView(console, plain_every=0) as shown:
        shown.update(replace(VIEW, name=HOSTILE, status=HOSTILE))
        shown.message(HOSTILE)
    text = text_of(console)
    assert "[red]rosa[/red]" in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    if not terminal:
        assert CONTROL.search(text) is None
        assert len(text.splitlines()) == 2


def test_invisible_joiners_that_spelling_needs_are_kept():
    console = output(terminal=False)
    with ConsoleView(console) as shown:
        shown.message("র\u200d্যাব")
    assert "র\u200d্যাব" in text_of(console)


@pytest.mark.parametrize("terminal", [True, False])
def test_the_farewell_comes_last_and_keeps_its_lines(terminal):
    console = output(terminal=terminal)
    with ConsoleView(console) as shown:
        shown.update(VIEW)
        shown.farewell("You contributed 9,876 samples.\nThank you!")
        shown.update(replace(VIEW, own_samples=5))
    assert text_of(console).endswith("\nYou contributed 9,876 samples.\nThank you!\n")


def test_a_loss_that_is_not_known_yet_is_called_so():
    assert "loss not known yet" in plain_line(replace(VIEW, loss=None))


def test_a_peer_alone_is_told_so_without_alarm():
    assert "only you so far" in plain_line(replace(VIEW, peers=1))


def test_how_many_experts_answer_is_shown_in_a_run_that_has_them():
    view = replace(VIEW, experts=(48, 64))
    assert "experts 48 of 64 answer" in plain_line(view)
    assert any("48 of 64 answer" in line for line in drawn(view))
    assert not any("experts" in line.lower() for line in (plain_line(VIEW), *drawn(VIEW)))


def test_large_numbers_are_shortened():
    line = plain_line(replace(VIEW, swarm_samples=1_234_567_890, samples_per_second=0.25))
    assert "swarm 1,234.6 M samples" in line
    assert "0.2/s" in line


@pytest.mark.parametrize("terminal", [True, False])
def test_threads_may_speak_at_the_same_time(terminal):
    console = output(terminal=terminal)
    with ConsoleView(console, plain_every=0) as shown:
        shown.update(VIEW)
        threads = [threading.Thread(target=say_hello, args=(shown, 50)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for samples in range(50):
            shown.update(replace(VIEW, own_samples=samples))
        for thread in threads:
            thread.join()
    if not terminal:
        lines = text_of(console).splitlines()
        assert lines.count("hello") == 200
        assert len(lines) == 251


def test_a_terminal_that_is_gone_does_not_stop_the_work():
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    with ConsoleView(Console(file=Gone(), force_terminal=True)) as shown:
        shown.update(VIEW)
        shown.message("hello")
    shown.farewell("goodbye")


def test_a_curve_goes_from_its_lowest_value_to_its_highest():
    assert sparkline([8.0, 4.0, 0.0]) == "█▅▁"
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([3.0]) == ""
