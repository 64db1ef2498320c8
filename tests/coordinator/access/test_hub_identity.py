import pytest

from coordinator.access import hub_identity as hub_module
from coordinator.access.hub_identity import KNOWN_FOR, REJECTED_FOR, Hub, HubUser, read_answer
from swarm.access.join_messages import Refusal, Refused
from tests.support.hub.requests import Answer
from tests.support.hub.stand_in import Account, HubStandIn, whoami


def name_or_refusal(answer: HubUser | Refused) -> str:
    return answer.name if isinstance(answer, HubUser) else answer.error.value


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_answers_are_good_for_a_while(hub_stand_in: HubStandIn) -> None:
    clock = Clock()
    hub = Hub(1.0, clock)
    token = hub_stand_in.add("asha")
    answers = [hub.ask(token)]
    hub_stand_in.revoke(token)
    for seconds in (KNOWN_FOR - 1, 1):
        clock.now += seconds
        answers.append(hub.ask(token))
    hub_stand_in.accounts[token] = Account("asha")
    for seconds in (REJECTED_FOR - 1, 1):
        clock.now += seconds
        answers.append(hub.ask(token))
    assert [*map(name_or_refusal, answers)] == ["asha", "asha", "token_rejected", "token_rejected", "asha"]
    assert len(hub_stand_in.asked) == 3


def test_that_the_hub_was_away_is_not_remembered(hub_stand_in: HubStandIn) -> None:
    hub, token = Hub(1.0), hub_stand_in.add("asha")
    hub_stand_in.away()
    away = hub.ask(token)
    assert isinstance(away, Refused) and away.error is Refusal.HUB_AWAY and "try again" in away.message
    hub_stand_in.back()
    assert name_or_refusal(hub.ask(token)) == "asha"


def test_a_silent_hub_is_away_after_a_while(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "HUB_TIMEOUT", 0.2)
    hub_stand_in.hold()
    away = Hub(1.0).ask(hub_stand_in.add("asha"))
    assert isinstance(away, Refused) and away.error is Refusal.HUB_AWAY and "Timeout" in away.message


def test_the_endpoint_is_that_of_the_moment(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, token = Hub(1.0), hub_stand_in.add("asha")
    with HubStandIn() as other:
        monkeypatch.setenv("HF_ENDPOINT", other.url)
        assert name_or_refusal(hub.ask(token)) == "token_rejected"
        monkeypatch.setenv("HF_ENDPOINT", hub_stand_in.url)
        assert name_or_refusal(hub.ask(token)) == "asha"


def test_an_endpoint_that_redirects_is_followed(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, there = hub_stand_in.answer, Answer(308, headers={"Location": "/api/whoami-v2"})
    monkeypatch.setattr(hub_stand_in, "answer", lambda asked: there if asked.path[:5] == "/old/" else answer(asked))
    monkeypatch.setenv("HF_ENDPOINT", f"{hub_stand_in.url}/old")
    assert name_or_refusal(Hub(1.0).ask(hub_stand_in.add("asha"))) == "asha"


def test_the_memory_is_bounded(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "MOST_KEPT", 5)
    hub = Hub(1.0)
    assert {name_or_refusal(hub.ask(f"hf_{number}")) for number in range(10)} == {"token_rejected"}
    assert len(hub._known._known) == 5


def test_what_the_hub_says_is_read_with_care() -> None:
    endpoint = "https://hub.example"
    asha = whoami(Account("asha", ("river", "sea")))
    assert read_answer(asha, endpoint) == HubUser(
        "asha", frozenset({"river", "sea"}), f"{endpoint}/avatars/617368610000000000000000.svg"
    )
    for avatar, url in (
        ("https://cdn.example/a.png", "https://cdn.example/a.png"),
        ("javascript:alert(1)", None),
        ("//cdn.example/a.png", None),
        (None, None),
        (7, None),
    ):
        assert read_answer(asha | {"avatarUrl": avatar}, endpoint) == HubUser("asha", frozenset({"river", "sea"}), url)
    assert read_answer({"type": "user", "name": "asha"}, endpoint) == HubUser("asha")
    assert name_or_refusal(read_answer(whoami(Account("river", kind="org")), endpoint)) == "token_rejected"
    garbled_ones: tuple[object, ...] = (None, [], {}, {"name": "#x"}, {"name": "~asha"}, asha | {"orgs": "river"})
    for garbled in garbled_ones:
        assert name_or_refusal(read_answer(garbled, endpoint)) == "hub_away"
