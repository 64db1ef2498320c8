"""A repository on the Hub: who may write to it and read it, and that every trouble is one line."""

import errno
import socket

import httpx2
import pytest
from huggingface_hub.utils import http_backoff
from huggingface_hub.utils._runtime import is_xet_available

from coordinator.release.hub import HubRepository, NotAllowed, ReleaseError, describe
from tests.coordinator.release.conftest import REPO, repository
from tests.support.hub.stand_in import HubStandIn


def test_without_a_token_or_with_one_that_may_only_read_the_way_out_is_told(
    hub: HubStandIn, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", hub.add("boat", "river", role="read"))
    with pytest.raises(NotAllowed, match=r"may not write there; make a token with write permission"):
        HubRepository(REPO).open()
    monkeypatch.setenv("HF_TOKEN", "hf_nobodys")
    with pytest.raises(NotAllowed, match="does not know the Hugging Face token"):
        HubRepository(REPO).open()
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(NotAllowed, match=r"there is no Hugging Face token; make one .* `hf auth login` or in HF_TOKEN"):
        HubRepository(REPO).open()
    assert not hub.repositories.by_name


def test_a_hub_that_is_away_is_one_line(hub: HubStandIn):
    hub.away()
    with pytest.raises(ReleaseError, match=r"river/boats: the Hub cannot be reached \(\w+\)"):
        HubRepository(REPO).open()


def test_a_private_repository_is_seen_by_its_owners_alone(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch):
    HubRepository(REPO, private=True).open()
    assert repository(hub).private and HubRepository(REPO).head() is not None
    monkeypatch.setenv("HF_TOKEN", hub.add("stranger", role="write"))
    assert HubRepository(REPO).head() is None


def test_what_is_to_be_private_is_not_released_where_everybody_sees_it(hub: HubStandIn):
    HubRepository(REPO).open()
    with pytest.raises(NotAllowed, match=r"there already and public; make it private at .*/river/boats/settings"):
        HubRepository(REPO, private=True).open()
    repository(hub).private = True
    HubRepository(REPO, private=True).open()


def test_a_disk_in_trouble_is_not_the_hubs_fault_and_a_mistake_of_ours_is_not_the_lines():
    full = describe(OSError(errno.ENOSPC, "No space left on device", "/state/x"), REPO)
    assert str(full) == f"{REPO}: /state/x: No space left on device"
    assert str(describe(PermissionError(errno.EACCES, "Permission denied", "/x"), REPO)).endswith("Permission denied")
    for away in (httpx2.ConnectError("no"), ConnectionResetError(errno.ECONNRESET, "reset"), TimeoutError()):
        assert "the Hub cannot be reached" in str(describe(away, REPO))
    sending = RuntimeError("Error while uploading")
    sending.__cause__ = httpx2.ReadTimeout("silence")
    assert "the Hub cannot be reached (ReadTimeout)" in str(describe(sending, REPO))
    assert describe(ZeroDivisionError("a mistake"), REPO) is None and describe(KeyError("sha"), REPO) is None


def test_large_files_do_not_travel_by_the_way_that_is_untried(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", False)
    HubRepository(REPO)
    assert not is_xet_available()


def test_also_a_hub_that_was_away_and_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """huggingface_hub makes a new client when nobody has listened."""
    monkeypatch.setattr("coordinator.release.hub.TIMEOUT", 0.3)
    HubRepository(REPO)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # after the first attempt, instead of a pause before the next one
        monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: listener.listen())
        with pytest.raises(httpx2.ReadTimeout):
            http_backoff("GET", f"http://127.0.0.1:{listener.getsockname()[1]}", max_retries=2)
