"""The coordinator releases by the schedule of the run file, in the background, whatever the Hub does."""

import json
import logging
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from coordinator.checkpoints.checkpoint import list_checkpoints
from coordinator.checkpoints.retention import prune
from coordinator.ledger.ledger import Ledger
from coordinator.release.uploader import Releaser
from coordinator.run_context import RunContext
from coordinator.state_folder import UNNAMED
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import Fingerprint
from tests.coordinator.release.conftest import OURS, REPO, MakeCheckpoint, repository
from tests.support.hub.repositories import File, Line, Repository
from tests.support.hub.stand_in import HubStandIn
from tests.support.waiting import PATIENCE, wait_until


@dataclass
class Releasing:
    """Releasers of a run, one after the other, and what they have said."""

    context: RunContext
    hub: HubStandIn
    make: MakeCheckpoint
    said: list[str] = field(default_factory=list)
    releasers: list[Releaser] = field(default_factory=list)

    @property
    def repository(self) -> Repository:
        return repository(self.hub)

    def open(self, also: Callable[[], Mapping[str, bytes]] = dict, until: str = "", **changes: Any) -> Releaser:
        """Until a releaser has said this."""
        context = replace(self.context, say=self.said.append, **changes)
        assert context.run.release is not None
        releaser = Releaser(context, context.run.release, also=also, first_pause=0.05)
        releaser.offer(list_checkpoints(context.checkpoints))
        releaser.start()
        self.releasers.append(releaser)
        self.wait_for(until)
        return releaser

    def open_until(self, what: str, **changes: Any) -> None:
        """The same, and end it."""
        self.open(until=what, **changes).finish()

    def offer(self) -> frozenset[Path]:
        return self.releasers[-1].offer(list_checkpoints(self.context.checkpoints))

    def add(self, step: int) -> None:
        self.make(step)
        self.offer()

    def wait_for(self, what: str) -> None:
        wait_until(lambda: not what or any(what in line for line in self.said), lambda: f"{what!r} in {self.said}")


@pytest.fixture
def releasing(
    run: RunFile, ledger: Ledger, state_folder: Path, hub: HubStandIn, make_checkpoint: MakeCheckpoint
) -> Iterator[Releasing]:
    made = Releasing(RunContext(run, OURS, state_folder, ledger, print), hub, make_checkpoint)
    yield made
    for one in made.releasers:
        one.finish(5.0)


def test_checkpoints_are_released_when_they_are_due(releasing: Releasing):
    releasing.open(until=f"Checkpoints are released at {releasing.hub.url}/{REPO}.")
    for step in (50, 100, 150, 250, 299, 310, 1000):
        releasing.add(step)
        if step not in (50, 150, 299):
            releasing.wait_for(f"global step {step}: released")
    assert [one.title for one in releasing.repository.revisions[1:]] == [
        f"Global step {step}: held-out loss 3.250, 2.25 lower than guessing from word frequencies alone"
        for step in (100, 250, 310, "1,000")
    ]
    assert set(releasing.repository.tags) == {"step-310", "step-1000", "final"}


def test_a_restarted_coordinator_releases_what_is_missing_and_nothing_twice(releasing: Releasing):
    releasing.make(100)
    releasing.open().finish(0.0)
    releasing.releasers[-1]._thread.join(PATIENCE)
    releasing.open_until("global step 100: released")
    releasing.said.clear()
    releasing.make(120)
    releasing.open_until("Checkpoints are released at")
    assert len(releasing.repository.revisions) == 2


def test_trouble_is_said_once_and_then_it_works(releasing: Releasing, caplog: pytest.LogCaptureFixture):
    releasing.make(100)
    releasing.hub.failing = 500
    with caplog.at_level(logging.DEBUG):
        releasing.open()
        releasing.wait_for("problem: ")
        asked = len(releasing.hub.asked)
        wait_until(lambda: len(releasing.hub.asked) > asked + 3, "further attempts")
        releasing.hub.failing = None
        releasing.wait_for("global step 100: released")
    problems = [line for line in releasing.said if line.startswith("problem: ")]
    told = f"{REPO}: the Hub is failing (status 500)"
    assert problems == [f"problem: the release was not uploaded and will be tried again: {told}"]
    assert not any(token in record.getMessage() for record in caplog.records for token in releasing.hub.accounts)


def test_nothing_is_released_while_it_cannot_be_read_who_is_not_to_be_named(releasing: Releasing):
    releasing.make(100)
    unnamed = releasing.context.folder / UNNAMED
    unnamed.write_bytes(b"\xff\xfe")
    releasing.open(until="problem: the release was not uploaded and will be tried again: ")
    assert len(releasing.repository.revisions) == 1 and UNNAMED in releasing.said[-1]
    unnamed.write_text("nobody-here\n")
    releasing.wait_for("global step 100: released")
    assert sum("has nobody-here, and nobody of that name" in line for line in releasing.said) == 1


def test_the_notebook_is_at_the_hub_once_a_release_has_carried_it_there_and_until_one_does_not(releasing: Releasing):
    releasing.hub.failing = 500
    releasing.make(100)
    releaser = releasing.open(also=lambda: {"join.ipynb": b"{}"})
    releasing.wait_for("problem: ")
    assert releaser.notebook() == "", "the step was reached, and nothing is there"
    releasing.hub.failing = None
    releasing.wait_for("global step 100: released")
    link = "https://huggingface.co/river/boats/blob/main/join.ipynb"
    assert releaser.notebook() == link
    releaser.finish()
    releasing.said.clear()
    again = releasing.open()
    releasing.wait_for("Checkpoints are released at")
    assert again.notebook() == link, "it is found there"
    releasing.add(1000)
    releasing.wait_for("global step 1000: released")
    assert again.notebook() == ""


def test_without_a_token_it_is_said_at_the_start_and_works_once_there_is_one(
    releasing: Releasing, monkeypatch: pytest.MonkeyPatch
):
    releasing.make(100)
    monkeypatch.delenv("HF_TOKEN")
    releasing.open(until="nothing can be released: river/boats: there is no Hugging Face token; make one with")
    monkeypatch.setenv("HF_TOKEN", releasing.hub.add("asha", "river", role="write"))
    releasing.wait_for("global step 100: released")
    assert sum(line.startswith("problem: ") for line in releasing.said) == 1


def test_nothing_is_written_over_another_runs_release(releasing: Releasing):
    releasing.make(100)
    releasing.open_until("global step 100: released")
    releasing.make(200)
    releasing.open_until(
        f"{REPO} holds a release of a run of this name with other settings; choose another release.repo",
        fingerprint=Fingerprint((("model", "large"),)),
    )
    assert len(releasing.repository.revisions) == 2


def test_a_run_that_has_begun_anew_does_not_go_back_on_the_hub(releasing: Releasing):
    releasing.make(300)
    releasing.open_until("global step 300: released")
    shutil.rmtree(releasing.context.checkpoints)
    releasing.make(100)
    releasing.open(until="has a release of global step 300, later than what is here; nothing is released until")
    releasing.add(200)
    releasing.add(400)
    releasing.wait_for("global step 400: released")
    assert [one.title.partition(":")[0] for one in releasing.repository.revisions[1:]] == [
        "Global step 300",
        "Global step 400",
    ]


def test_a_tag_that_was_lost_with_the_coordinator_is_given_by_the_next_one(releasing: Releasing):
    releasing.make(310)
    releasing.hub.repositories.troubles.extend([("POST .*/tag/", 500)] * 1000)
    releasing.open_until("problem: ")
    assert len(releasing.repository.revisions) == 2 and not releasing.repository.tags
    releasing.hub.repositories.troubles.clear()
    releasing.said.clear()
    releasing.open_until("Checkpoints are released at")
    assert releasing.repository.tags == {"step-310": releasing.repository.head.oid}
    assert len(releasing.repository.revisions) == 2


def test_what_others_release_meanwhile_is_not_written_over(releasing: Releasing):
    releasing.make(100)
    releasing.open(until="global step 100: released")
    state = json.loads(releasing.repository.head.files["trainer_state.json"].content)
    _release_by_others(releasing, state | {"run": "other-run"})
    releasing.add(200)
    releasing.wait_for(f"nothing can be released: {REPO} holds a release of run other-run")
    _release_by_others(releasing, state | {"step": 250})
    releasing.wait_for("has a release of global step 250, later than what is here")
    releasing.add(300)
    releasing.wait_for("global step 300: released")
    assert [one.title.partition(":")[0] for one in releasing.repository.revisions[1:]] == [
        "Global step 100",
        "others",
        "others",
        "Global step 300",
    ]


def _release_by_others(releasing: Releasing, state: dict[str, object]) -> None:
    releasing.repository.commit("others", "", {"trainer_state.json": File(json.dumps(state).encode(), False)})


def test_a_licence_that_the_hub_does_not_know_is_told_at_the_start(releasing: Releasing, run: RunFile):
    assert run.release is not None
    release = run.release.model_copy(update={"license": "apache"})
    releasing.open(run=run.model_copy(update={"release": release}))
    releasing.wait_for("problem: nothing can be released: river/boats: the Hub refuses the model card")


def test_a_checkpoint_stays_while_it_is_uploading_and_readers_see_whole_revisions_alone(releasing: Releasing):
    line = Line(held_after=1000)
    releasing.hub.repositories.lines.append(("PUT /lfs/", line))
    first, folder = releasing.make(100), releasing.context.checkpoints
    releasing.open()
    assert line.holding.wait(PATIENCE)
    for step in (110, 120, 200):
        releasing.make(step)
        # the books do not wait for the Hub, which waits for `go_on`
        prune(folder, list_checkpoints(folder), 1, spared=releasing.offer())
        assert [one.title for one in releasing.repository.revisions] == ["initial commit"]
    assert [one.step for one in list_checkpoints(folder)] == [100, 200] and first.path.exists()
    line.go_on.set()
    releasing.wait_for("global step 100: released")
    releasing.wait_for("global step 200: released")
    prune(folder, list_checkpoints(folder), 1, spared=releasing.offer())
    assert [one.step for one in list_checkpoints(folder)] == [200]


def test_a_coordinator_that_leaves_does_not_wait_for_a_slow_hub(releasing: Releasing):
    line = Line(held_after=1000)
    releasing.hub.repositories.lines.append(("PUT /lfs/", line))
    releasing.make(100)
    others = set(threading.enumerate())
    releaser = releasing.open()
    assert line.holding.wait(PATIENCE)
    own = set(threading.enumerate()) - others
    releaser.finish(0.2)
    assert any("release of global step 100 was not finished; it goes on when" in one for one in releasing.said)
    line.go_on.set()
    assert not any(one.name.startswith("ThreadPool") for one in own), "the end of the process would wait for them"


def test_leaving_is_heard_at_any_moment(releasing: Releasing):
    """Also in the one in which the releaser forgets what it has heard."""
    assert releasing.context.run.release is not None
    releaser = Releaser(releasing.context, releasing.context.run.release)
    forget = releaser._changed.clear

    def forget_what_was_just_said() -> None:
        threading.Thread(target=releaser.finish, daemon=True).start()
        assert releaser._changed.wait(PATIENCE)
        forget()

    releaser._changed.clear = forget_what_was_just_said  # type: ignore[method-assign]
    releaser._thread.start()
    releaser._thread.join(PATIENCE)
    assert not releaser._thread.is_alive()
    assert releasing.hub.asked == []


def test_a_mistake_of_ours_does_not_end_it(releasing: Releasing):
    releasing.make(100)
    faults = [ZeroDivisionError("a mistake")]

    def also() -> dict[str, bytes]:
        if faults:
            raise faults.pop()
        return {"join.ipynb": b"{}"}

    releasing.open(also=also)
    releasing.wait_for("the release was not uploaded and will be tried again (ZeroDivisionError: a mistake)")
    releasing.wait_for("global step 100: released")
    assert releasing.repository.head.files["join.ipynb"].content == b"{}"
