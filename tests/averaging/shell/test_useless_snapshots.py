"""A snapshot that cannot be taken over costs the peer that has told of it, and not the peer that has fetched it."""

from pathlib import Path
from typing import Any

import pytest

from tests.averaging.shell.test_shell import states_are_equal
from tests.averaging.shell.virtual.village import Village, step_of

AWAY = 40  # steps: more than others keep the updates of


@pytest.mark.parametrize("fails", ["checked", "load"])
@pytest.mark.parametrize("name", ["dina", "bela", "coordinator"])
async def test_a_peer_leaves_a_log_whose_snapshot_is_useless(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str, fails: str
) -> None:
    """A newcomer, and a trainer or the coordinator that comes back after many steps; no liar brings this about.

    It sees that when it has the manifest, or when it has all of the snapshot.
    """
    village = Village(tmp_path)
    await village.begin(steps=7)
    if name == "dina":
        shell = village.add(name)
    else:
        shell = village.shells[f"{name}.0"]
        village.is_cut = lambda sender, to: shell.machine.me.session in (sender, to)
        await village.more_steps(AWAY + 1)
        village.is_cut = lambda sender, to: False
    works, useless = getattr(shell.replay, fails), iter(["the first one"])

    def fail_once(*given: Any) -> Any:
        if next(useless, None):
            raise ValueError("it does not fit the run")
        return works(*given)

    monkeypatch.setattr(shell.replay, fails, fail_once)
    await village.until(lambda: "cannot be used, so another peer is asked" in caplog.text)
    step = village.newest.step
    await village.until(lambda: village.newest.step > step + 10 and step_of(shell) > step + 8)
    await village.rest()
    states_are_equal(*village.shells.values())
    assert not shell.failure.done()
