"""Joining in the language of the run: what the volunteer reads, and what stays as it is."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from app.join import machine_checks
from app.join.admission import team_line
from app.join.join import join
from app.join.problems import ProblemKind
from app.join.refusals import told
from swarm.access import team_refusals
from swarm.access.join_messages import JoinAnswer, Refusal, Refused
from swarm.language import VARIABLE, Language, speak
from swarm.run_file import RunFile, parse_run
from tests.app.join.conftest import RUN, Trained
from tests.app.join.stand_in import OPEN_RUN, Answer, StandIn
from tests.app.join.test_join import options
from tests.support.problems import raises_problem
from trainer.pausing import long_pauses

GREETING = "little-এ যোগ দেওয়া হচ্ছে: A run for tests."


@pytest.fixture(autouse=True)
def of_the_run(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has asked for a language."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    speak("")  # a test of another file may have joined a run
    yield
    speak("")


@pytest.fixture
def bengali(opened: StandIn) -> StandIn:
    opened.answers["GET /api/run"] = Answer(body=OPEN_RUN | {"language": "bn-BD"})
    return opened


def test_a_volunteer_is_greeted_in_the_language_of_the_run(
    bengali: StandIn, trained: Trained, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    join(bengali.url, options(tmp_path, name="রোজা"))
    shown = capfd.readouterr().out
    assert GREETING in shown and "অবদানের তালিকায় আপনার নাম ~রোজা, যাচাই করা নয়;" in shown
    assert "যেকোনো সময় Ctrl-C চেপে চলে যেতে পারেন" in shown
    assert "Joining" not in shown


def test_the_variable_is_for_those_who_read_another(
    bengali: StandIn,
    trained: Trained,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "en")
    join(bengali.url, options(tmp_path, name="rosa"))
    assert "Joining little: A run for tests." in capfd.readouterr().out


def test_a_problem_before_the_run_is_known_is_in_the_language_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with raises_problem(ProblemKind.BAD_URL) as problem:
        join("/ip4/127.0.0.1", options(tmp_path))
    assert "not a URL but a peer's address" in str(problem.value)
    monkeypatch.setenv("LC_ALL", "bn_BD.UTF-8")
    with raises_problem(ProblemKind.BAD_URL) as problem:
        join("/ip4/127.0.0.1", options(tmp_path))
    assert "এটি লিংক নয়, একটি যন্ত্রের ঠিকানা" in str(problem.value)


def test_a_process_that_has_begun_again_for_a_pause_goes_on_in_the_language_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(long_pauses.BEGAN_AGAIN, "bn /peers/rosa")
    assert long_pauses.came_from_pause()
    assert machine_checks.plan(little(), "rosa", verified=True, client_mode=False)[0] == GREETING
    assert not long_pauses.came_from_pause()


@pytest.mark.parametrize("error", [one for one in Refusal if one is not Refusal.MALFORMED])
def test_a_refusal_says_in_the_persons_language_what_is_the_matter(
    error: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Refused(error=error, message="asha is banned\nhere")
    assert told(refused) == "asha is banned here"
    monkeypatch.setenv(VARIABLE, "bn")
    assert told(refused).endswith(" (asha is banned here)")
    assert told(refused).removesuffix(" (asha is banned here)") == told(Refused(error=error, message=""))


def test_a_refusal_whose_words_are_known_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "bn")
    paused = Refused(
        error=Refusal.PAUSED, message="the organizer has closed this run to newcomers for now; try again later"
    )
    assert told(paused) == "আয়োজক আপাতত নতুনদের জন্য এই প্রশিক্ষণ বন্ধ রেখেছেন; পরে আবার চেষ্টা করুন"


@pytest.mark.parametrize("text", team_refusals.ALL)
def test_what_is_not_possible_with_a_team_is_told_in_the_persons_language(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = dict.fromkeys(("name", "n", "least", "most", "letter", "place"), "'River people'")
    refused = Refused(error=Refusal.MALFORMED, message=text.format(**values))
    none: Callable[..., JoinAnswer] = JoinAnswer.model_construct
    assert told(refused) == refused.message
    monkeypatch.setenv(VARIABLE, "bn")
    bengali = Language("bn").text(text).format(**values)
    assert told(refused) == bengali != refused.message
    assert f": {bengali}।" in team_line("River people", none(team="", no_team=refused.message))


def little() -> RunFile:
    return parse_run(yaml.safe_load(RUN), Path("run.yaml"))
