"""A checkpoint becomes a release: one commit that is whole, also where the line breaks on the way."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.checkpoints.checkpoint import Checkpoint
from coordinator.ledger.ledger import Ledger
from coordinator.release.build import make_release
from coordinator.release.facts import read_record
from coordinator.release.hub import HubRepository, NotAllowed, ReleaseError
from coordinator.release.publish import Release, publish
from swarm.run_file import RunFile
from tests.coordinator.release.conftest import REPO, MakeCheckpoint, repository
from tests.support.hub.repositories import File, Line
from tests.support.hub.stand_in import HubStandIn

Prepare = Callable[..., Release]


@pytest.fixture
def prepare(run: RunFile, ledger: Ledger, make_checkpoint: MakeCheckpoint) -> Prepare:
    """A release of the checkpoint of a step, or of one that is given."""

    def make(checkpoint: Checkpoint | int, *tags: str) -> Release:
        whole = make_checkpoint(checkpoint) if isinstance(checkpoint, int) else checkpoint
        record = read_record(ledger, run, frozenset())
        return make_release(run, whole, REPO, record=record, also={"join.ipynb": b"{}"}, tags=tags)

    return make


@pytest.fixture
def there(hub: HubStandIn) -> HubRepository:
    opened = HubRepository(REPO)
    opened.open()
    return opened


def test_a_release_is_one_commit_with_everything_in_it(
    hub: HubStandIn, there: HubRepository, prepare: Prepare, make_checkpoint: MakeCheckpoint
):
    checkpoint = make_checkpoint(100)
    commit = publish(there, prepare(checkpoint, "step-100"))
    assert repository(hub).head.oid == commit
    assert [one.title for one in repository(hub).revisions] == [
        "initial commit",
        "Global step 100: held-out loss 3.250, 2.25 lower than guessing from word frequencies alone",
    ]
    assert repository(hub).tags == {"step-100": commit}
    files = repository(hub).head.files
    assert {"README.md", "loss.png", "join.ipynb", "SHA256SUMS", "run.yaml", "trainer_state.json"} <= files.keys()
    for path in checkpoint.path.iterdir():
        assert files[path.name].content == path.read_bytes()
    assert files["model.safetensors"].large and not files["config.json"].large


def test_the_next_release_replaces_it_and_the_older_one_stays_in_the_history(
    hub: HubStandIn, there: HubRepository, prepare: Prepare
):
    first, second = (publish(there, prepare(step)) for step in (100, 200))
    head = there.head()
    assert head is not None and head.commit == second and head.state is not None and head.state.step == 200
    older = repository(hub).find(first)
    assert older is not None and json.loads(older.files["trainer_state.json"].content)["step"] == 100


def test_what_a_release_has_no_more_is_not_in_its_revision_and_what_others_added_stays(
    hub: HubStandIn, there: HubRepository, prepare: Prepare
):
    repository(hub).commit("by hand", "", {"experts.safetensors": File(b"mine", False)})
    publish(there, prepare(100))
    assert "experts.safetensors" in repository(hub).head.files, "what was there before the first release is not ours"
    repository(hub).commit("by hand", "", {"notes.md": File(b"mine", False)})
    last = prepare(200)
    publish(there, replace(last, files={name: one for name, one in last.files.items() if name != "join.ipynb"}))
    assert not {"join.ipynb", "experts.safetensors"} & repository(hub).head.files.keys()
    assert {"notes.md", "loss.png"} <= repository(hub).head.files.keys()


def test_what_has_arrived_before_a_cut_is_not_sent_again(hub: HubStandIn, there: HubRepository, prepare: Prepare):
    """The second large file never gets through; readers see the old revision, and the next attempt sends the rest."""
    release = prepare(100)
    before, arrived = repository(hub).head, hub.repositories.received
    for _ in range(6):  # as often as huggingface_hub tries
        hub.repositories.lines.append((f"PUT /lfs/{_sum(release, 'optimizer.pt')}", Line(cut_after=100)))
    with pytest.raises(ReleaseError, match="cannot be reached") as caught:
        publish(there, release)
    assert "\n" not in str(caught.value)
    assert repository(hub).head is before and repository(hub).revisions == [before]
    assert arrived == [_sum(release, "model.safetensors")]
    commit = publish(there, release)
    assert arrived == [_sum(release, name) for name in ("model.safetensors", "optimizer.pt", "loss.png")]
    assert repository(hub).head.oid == commit


@pytest.mark.parametrize("where", ["POST .*/commit/", "POST .*/tag/"])
def test_an_answer_that_is_lost_makes_no_second_commit(
    hub: HubStandIn, there: HubRepository, prepare: Prepare, where: str
):
    release = prepare(100, "step-100")
    hub.repositories.lines.append((where, Line(answered=False)))
    with pytest.raises(ReleaseError, match="cannot be reached"):
        publish(there, release)
    assert len(repository(hub).revisions) == 2
    publish(there, release)
    assert len(repository(hub).revisions) == 2 and repository(hub).tags == {"step-100": repository(hub).head.oid}


def test_a_card_that_the_hub_does_not_take_is_refused_before_anything_is_sent(
    hub: HubStandIn, there: HubRepository, make_checkpoint: MakeCheckpoint, run: RunFile
):
    assert run.release is not None
    run = run.model_copy(update={"release": run.release.model_copy(update={"license": "apache"})})
    release = make_release(run, make_checkpoint(100), REPO, record=None, also={}, tags=())
    told = (
        r'river/boats: the Hub refuses the model card \(.*"license" must be one of .*\); '
        "correct the release section of the run file"
    )
    with pytest.raises(NotAllowed, match=told):
        publish(there, release)
    assert hub.repositories.received == []
    hub.repositories.troubles.extend([("POST /api/validate-yaml", 200)] * 2)
    with pytest.raises(NotAllowed, match=told):
        publish(there, release)  # and the same where only the commit is refused
    assert len(repository(hub).revisions) == 1


def test_a_hub_that_falls_silent_is_given_up(
    hub: HubStandIn, there: HubRepository, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
):
    release = prepare(100)
    monkeypatch.setattr("coordinator.release.hub.TIMEOUT", 0.2)
    lines = [Line(held_after=1000) for _ in range(6)]
    hub.repositories.lines.extend(("PUT /lfs/", line) for line in lines)
    with pytest.raises(ReleaseError, match=r"the Hub cannot be reached \(\w*[Tt]imeout\w*\)"):
        publish(there, release)
    for line in lines:
        line.go_on.set()


def test_somebody_elses_commit_in_between_is_not_lost(hub: HubStandIn, there: HubRepository, prepare: Prepare):
    release = prepare(100)
    head = there.head()
    assert head is not None
    sent = there.send(release.files)
    repository(hub).commit("by hand", "", {})
    with pytest.raises(ReleaseError, match="somebody else changed it"):
        there.commit(sent, release.message, "", after=head.commit)
    publish(there, release)
    assert [one.title for one in repository(hub).revisions][1] == "by hand"


@pytest.mark.parametrize(
    ("where", "status", "kind", "said"),
    [
        ("POST .*/commit/", 401, NotAllowed, "does not know the Hugging Face token"),
        ("POST .*/commit/", 403, NotAllowed, "(the Hub says: the stand-in was told to fail)"),
        ("POST .*/commit/", 429, ReleaseError, "is limiting requests (429)"),
        ("POST .*/commit/", 500, ReleaseError, "is failing (status 500)"),
        ("POST .*/commit/", 503, ReleaseError, "is failing (status 503)"),
        ("POST .*/commit/", 400, ReleaseError, "the Hub refuses (400: the stand-in was told to fail)"),
        ("POST /api/repos/create", 403, NotAllowed, "may not write there"),
        ("POST .*/preupload/", 403, NotAllowed, "may not write there"),
        ("POST .*/batch", 500, ReleaseError, "is failing (status 500)"),
    ],
)
def test_each_refusal_is_one_line(
    hub: HubStandIn, prepare: Prepare, where: str, status: int, kind: type[ReleaseError], said: str
):
    there, release = HubRepository(REPO), prepare(100)
    hub.repositories.troubles.extend([(where, status)] * 6)
    with pytest.raises(ReleaseError) as caught:
        there.open()
        publish(there, release)
    message = str(caught.value)
    assert type(caught.value) is kind and message.startswith(f"{REPO}: ") and said in message
    assert "\n" not in message and not any(token in message for token in hub.accounts)
    hub.repositories.troubles.clear()
    there.open()
    publish(there, release)
    assert repository(hub).head.title == release.message


def _sum(release: Release, name: str) -> str:
    content = release.files[name]
    return hashlib.sha256(content if isinstance(content, bytes) else content.read_bytes()).hexdigest()
