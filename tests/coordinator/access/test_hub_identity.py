import pytest

from coordinator.access import hub_identity as hub_module
from coordinator.access.hub_identity import KNOWN_FOR, REJECTED_FOR, Hub, HubAway, HubUser, TokenRejected, read_answer
from tests.support.hub.stand_in import Account, HubStandIn, whoami


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_answers_are_good_for_a_while(hub_stand_in: HubStandIn) -> None:
    clock = Clock()
    hub = Hub(clock)
    token = hub_stand_in.add("asha")
    assert hub.ask(token).name == "asha"
    hub_stand_in.revoke(token)
    clock.now += KNOWN_FOR - 1
    assert hub.ask(token).name == "asha"
    clock.now += 1
    with pytest.raises(TokenRejected):
        hub.ask(token)
    hub_stand_in.accounts[token] = Account("asha")
    clock.now += REJECTED_FOR - 1
    with pytest.raises(TokenRejected):
        hub.ask(token)
    clock.now += 1
    assert hub.ask(token).name == "asha"
    assert len(hub_stand_in.asked) == 3


def test_that_the_hub_was_away_is_not_remembered(hub_stand_in: HubStandIn) -> None:
    hub, token = Hub(), hub_stand_in.add("asha")
    hub_stand_in.away()
    with pytest.raises(HubAway, match="try again"):
        hub.ask(token)
    hub_stand_in.back()
    assert hub.ask(token).name == "asha"


def test_a_silent_hub_is_away_after_a_while(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "HUB_TIMEOUT", 0.2)
    hub_stand_in.hold()
    with pytest.raises(HubAway, match="Timeout"):
        Hub().ask(hub_stand_in.add("asha"))


def test_the_endpoint_is_that_of_the_moment(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    hub, token = Hub(), hub_stand_in.add("asha")
    with HubStandIn() as other:
        monkeypatch.setenv("HF_ENDPOINT", other.url)
        with pytest.raises(TokenRejected):
            hub.ask(token)
        monkeypatch.setenv("HF_ENDPOINT", hub_stand_in.url)
        assert hub.ask(token).name == "asha"


def test_the_memory_is_bounded(hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "MOST_KEPT", 5)
    hub = Hub()
    for number in range(10):
        with pytest.raises(TokenRejected):
            hub.ask(f"hf_{number}")
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
    assert isinstance(read_answer(whoami(Account("river", kind="org")), endpoint), TokenRejected)
    garbled_ones: tuple[object, ...] = (None, [], {}, {"name": "#x"}, {"name": "~asha"}, asha | {"orgs": "river"})
    for garbled in garbled_ones:
        assert isinstance(read_answer(garbled, endpoint), HubAway)
