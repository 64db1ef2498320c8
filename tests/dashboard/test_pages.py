"""The logic of the pages, in Streamlit's own test driver, before a real coordinator."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import dashboard
from dashboard import texts
from dashboard.language import VARIABLE
from tests.dashboard.coordinators import Switch
from tests.recorded_month.hosting import TOKENS, USERS
from tests.recorded_month.people import AWKWARD
from tests.recorded_month.serving import Served
from tests.support.waiting import PATIENCE, wait_until

APP = Path(dashboard.__file__).with_name("app.py")
HOSTILE = "<img src=x onerror=alert(1)> [x](javascript:alert(2)) :material/verified: www.evil.example"


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


@pytest.fixture
def show(small: Served, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """`show("people")` runs a page; `show()` the whole app at its first page."""

    def run(page: str | None = None, url: str = small.url, **query: str) -> AppTest:
        monkeypatch.setenv("SAHAJ_URL", url)
        monkeypatch.setenv("SAHAJ_REFRESH", "0.2")
        monkeypatch.setattr("dashboard.api.client.PATIENCE", PATIENCE)  # the coordinator is in this busy process
        monkeypatch.setenv(VARIABLE, "en")
        if page is None:
            return AppTest.from_file(str(APP), default_timeout=PATIENCE).run()

        def script(page: str) -> None:
            import importlib

            importlib.import_module(f"dashboard.views.{page}").show()

        app = AppTest.from_function(script, default_timeout=PATIENCE, kwargs={"page": page})
        for name, value in query.items():
            app.query_params[name] = value
        return app.run()

    return run


def words(app: AppTest) -> str:
    """Everything that is written as Markdown."""
    kinds = (app.markdown, app.caption, app.title, app.header, app.subheader, app.info, app.warning, app.success)
    return "\n".join(element.value for kind in kinds for element in kind)


def once_it_says(text: str, app: AppTest) -> AppTest:
    """The app, looked at again until the text is there: what is decided is told some seconds later."""
    wait_until(lambda: text in words(app.run()), f"page that says: {text}")
    return app


def figures(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_the_overview_shows_what_the_coordinator_says(show: Callable[..., AppTest], small: Served) -> None:
    progress = small.ask("progress").json()
    run = small.ask("run").json()
    app = show()
    assert not app.exception and app.title[0].value == run["name"]
    assert app.code[0].value == run["one_line"]
    with_uv = rf"uvx .* --constraints \S+/program/constraints.txt --from {run['program']} {run['join']}"
    assert re.fullmatch(with_uv, app.code[1].value) and app.code[2].value == run["join"]
    shown = figures(app)
    assert shown["Global step"] == f"{progress['step']:,}"
    assert shown["Samples"] == texts.number(progress["samples"])
    assert shown["Tokens read"] == texts.number(progress["tokens"])
    assert shown["People here now"] == texts.number(progress["users_present"])
    assert shown["People so far"] == texts.number(progress["users_ever"])
    assert shown["Machine hours"] == texts.number(progress["hours"])
    assert shown["Held-out loss"] == f"{progress['eval_loss']:.2f}"
    compared = next(metric for metric in app.metric if metric.label == "Held-out loss")
    assert compared.delta == f"{progress['below_unigram']:.2f} nats better than word frequencies alone"
    assert "Open to everybody" in words(app)


def test_changes_over_the_last_hour_stand_with_the_figures(show: Callable[..., AppTest], small: Served) -> None:
    def gains() -> dict[str, Any]:
        return dict(small.ask("progress").json()["last_hour"])

    gained, deltas = gains(), {metric.label: metric.delta for metric in show().metric}
    while gained != gains():  # the hour began a minute later meanwhile
        gained, deltas = gains(), {metric.label: metric.delta for metric in show().metric}
    assert deltas["Samples"].startswith(f"+{texts.number(gained['samples'])} in ")


def test_a_run_with_experts_shows_who_serves_them_and_what_they_add(
    show: Callable[..., AppTest], hosted: Served
) -> None:
    app = show("people", hosted.url)
    assert not app.exception
    shown = figures(app)
    assert shown["Served now"] == "14 of 16"
    assert shown["With a copy"] == "15"
    assert (shown["Held-out loss"], shown["Without experts"]) == ("2.295", "2.345")
    leaders, table = (frame.value for frame in app.dataframe)
    assert dict(zip(leaders["user"], leaders["Tokens served"], strict=True))["hema"] == TOKENS
    assert list(table["Host"]) == list(USERS)
    assert list(table["Serves"]) == [7, 7, 1] and list(table[""]) == ["", "", "leaving"]
    assert figures(show("person", hosted.url, user="hema"))["Tokens served"] == texts.number(TOKENS)
    assert "Served now" not in figures(show("people")), "there is no such section in other runs"


@pytest.mark.parametrize("page", ["learning", "people", "machines", "replay", "person", "organizer"])
def test_every_page_shows_a_run_to_which_nobody_has_come(
    show: Callable[..., AppTest], empty: Served, page: str
) -> None:
    app = show(page, empty.url)
    assert not app.exception


def test_the_overview_of_an_empty_run_invites(show: Callable[..., AppTest], empty: Served) -> None:
    app = show(None, empty.url)
    assert not app.exception
    assert "Waiting for people" in words(app)
    assert "The curve begins with the first global step" in words(app)
    assert figures(app)["Time left"] == texts.DASH
    assert app.code


def test_a_paused_run_says_so_and_does_not_pretend_to_be_open(show: Callable[..., AppTest], decided: Served) -> None:
    decided.context.notices.pause()
    app = once_it_says("The run takes no newcomers for now", show())
    assert "Closed to newcomers for now: please come back later" in words(app)
    assert "Open to everybody" not in words(app)


def test_a_finished_run_thanks_and_asks_nobody_to_join(show: Callable[..., AppTest], decided: Served) -> None:
    decided.context.notices.stop()
    app = once_it_says("The organizer has ended this run", show())
    assert "Thank you to 25 people" in words(app)
    assert not app.code


def test_without_a_coordinator_the_page_says_so_and_where(show: Callable[..., AppTest]) -> None:
    switch = Switch()
    app = show(None, switch.url)
    switch.close()
    assert not app.exception
    assert "No contact yet" in app.title[0].value
    assert switch.url in words(app)


def test_the_last_figures_stay_with_their_age(show: Callable[..., AppTest], small: Served) -> None:
    switch = Switch()
    switch.lead_to(small.url)
    app = show(None, switch.url)
    before = figures(app)
    switch.close()
    once_it_says("cannot be reached.** The figures below are from ", app)
    assert "just now" in words(app)
    assert figures(app) | {"Time left": ""} == before | {"Time left": ""}


def test_without_a_url_the_page_says_what_to_set(show: Callable[..., AppTest]) -> None:
    assert "SAHAJ_URL" in words(show(None, ""))


def test_the_leaderboard_has_everybody_in_order(show: Callable[..., AppTest], small: Served) -> None:
    app = show("people")
    table = app.dataframe[0].value
    leaders = small.ask("leaderboard?period=run").json()
    assert list(table["user"]) == [one["user"] for one in leaders]
    assert list(table["Rank"]) == list(range(1, len(leaders) + 1))
    assert list(table["Share"]) == [one["share"] for one in leaders]


def test_the_leaderboard_is_searched_by_part_of_a_name(show: Callable[..., AppTest]) -> None:
    app = show("people")
    app.text_input(key="search").input("USER-01").run()
    found = list(app.dataframe[0].value["Name"])
    assert found
    assert all("user-01" in name for name in found)
    app.text_input(key="search").input("(.*").run()
    assert not app.exception
    assert "Nobody whose name contains" in words(app)


def test_the_leaderboard_of_a_day_is_another(show: Callable[..., AppTest], small: Served) -> None:
    app = show("people")
    app.segmented_control(key="period").set_value("Today (UTC)").run()
    today = small.ask("leaderboard?period=day").json()
    assert list(app.dataframe[0].value["Samples"]) == [one["samples"] for one in today]


def test_somebody_has_a_page(show: Callable[..., AppTest], small: Served) -> None:
    about = small.ask("person?user=user-003").json()
    app = show("person", user="user-003")
    assert not app.exception
    assert app.header[0].value == texts.name("user-003")
    assert figures(app)["Samples"] == texts.number(about["samples"])
    assert figures(app)["Rank"] == str(about["rank"])
    assert f"{small.url.rpartition(':')[2]}/api/badge.svg?user=user-003" in app.code[0].value


@pytest.mark.parametrize("user", ["nobody", "", "../admin", "x" * 5000, "a&user=user-003", "\x00"])
def test_somebody_unknown_has_none(show: Callable[..., AppTest], user: str) -> None:
    app = show("person", user=user)
    assert not app.exception
    assert ("has taken part in this run" if user else "No name was given") in words(app)
    assert not app.metric


@pytest.mark.parametrize("user", AWKWARD[:5])
def test_the_page_of_an_awkward_name_shows_it_as_it_is(show: Callable[..., AppTest], user: str) -> None:
    app = show("person", user=user)
    assert not app.exception
    assert app.header[0].value == texts.name(user)


def test_all_that_comes_from_outside_is_escaped(show: Callable[..., AppTest], decided: Served) -> None:
    decided.context.notices.announce(HOSTILE)
    first = words(once_it_says(texts.plain(HOSTILE), show()))
    for written in (first, words(show("people")), words(show("learning"))):
        assert not re.search(r"(?<!\\)(<|\]\()", written)
        assert ":material/verified:" not in written


def test_a_checkpoint_can_be_chosen_to_see_its_guesses(show: Callable[..., AppTest], small: Served) -> None:
    fills = small.ask("fills").json()
    app = show("learning")
    slider = app.select_slider(key="fill-step")
    assert slider.value == fills[-1]["step"]
    slider.set_value(fills[0]["step"]).run()
    assert not app.exception
    best = texts.plain(fills[0]["sentences"][0]["guesses"][0]["token"])
    assert f":primary[**{best}**]" in words(app)


def test_checkpoints_are_listed_with_their_scores(show: Callable[..., AppTest], small: Served) -> None:
    checkpoints = small.ask("checkpoints").json()
    app = show("learning")
    app.toggle(key="show-scores").set_value(True).run()
    assert not app.exception
    table = app.dataframe[0].value
    assert list(table["Global step"]) == [one["step"] for one in reversed(checkpoints)]
    assert list(table["Held-out loss"]) == [one["eval_loss"] for one in reversed(checkpoints)]
    assert list(table["Below word frequencies alone"]) == [one["below_unigram"] for one in reversed(checkpoints)]
    assert "The dashed line, at 7.17 nats, is the loss of guessing from word frequencies alone" in words(app)


@pytest.mark.parametrize("axis", ["Global step", "Time"])
@pytest.mark.parametrize("smoothing", ["None", "Strong"])
def test_curves_are_drawn_against_step_and_time(show: Callable[..., AppTest], axis: str, smoothing: str) -> None:
    app = show("learning")
    app.segmented_control(key="loss-axis").set_value(axis)
    app.segmented_control(key="swarm-axis").set_value(axis)
    app.segmented_control(key="smoothing").set_value(smoothing).run()
    assert not app.exception


def test_machines_are_listed_without_names(show: Callable[..., AppTest], small: Served) -> None:
    app = show("machines")
    devices, kinds = (small.ask("machines").json()[name] for name in ("devices", "kinds"))
    assert not app.exception and figures(app)["Kinds of device"] == str(kinds)
    table = app.dataframe[0].value
    assert list(table["Device"]) == [one["device"] for one in devices]
    assert "user-0" not in words(app) + table.to_csv()


def test_a_wrong_key_opens_nothing(show: Callable[..., AppTest]) -> None:
    app = show("organizer")
    app.text_input(key="organizer-typed").input("f" * 64)
    app.button[0].click().run()
    assert "not the admin key" in app.error[0].value
    assert "organizer-key" not in app.session_state
    app.text_input(key="organizer-typed").input("ключ\n").run()
    app.button[0].click().run()
    assert not app.exception


def test_the_organizer_announces_bans_pauses_and_takes_back(show: Callable[..., AppTest], decided: Served) -> None:
    board = decided.context.notices
    app = show("organizer")
    app.text_input(key="organizer-typed").input(decided.context.admin_key)
    app.button[0].click().run()
    assert not app.exception
    app.text_input(key="announce-text").input("Back at nine")
    press(app, "Announce")
    assert board.decisions.announcement == "Back at nine"
    app.text_input(key="ban-name").input("~troll")
    press(app, "Ban")
    assert "~troll" in board.decisions.banned
    press(app, "Unban")
    assert "~troll" not in board.decisions.banned
    press(app, "Close to newcomers")
    assert board.decisions.paused
    press(app, "Open to newcomers")
    assert not board.decisions.paused
    press(app, "Forget the key")
    assert "organizer-key" not in app.session_state


def press(app: AppTest, label: str) -> None:
    next(button for button in app.button if button.label == label).click()
    app.run()
    assert not app.exception


def test_a_key_is_not_taken_for_a_coordinator_that_others_could_listen_to(show: Callable[..., AppTest]) -> None:
    app = show("organizer", "http://run.example.org")
    assert "without encryption" in app.warning[0].value
    assert not app.text_input
