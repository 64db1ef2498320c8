"""`sahaj release` as an organizer types it, and as its end by a power cut leaves the Hub."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from coordinator.ledger.ledger import Ledger
from coordinator.state_folder import UNNAMED
from tests.coordinator.release.conftest import REPO, MakeCheckpoint, repository
from tests.support.forked import start_forked
from tests.support.hub.reader import read_from_hub
from tests.support.hub.repositories import Line
from tests.support.hub.stand_in import HubStandIn
from tests.support.waiting import PATIENCE

TITLE = "Global step 100: held-out loss 3.250, 2.25 lower than guessing from word frequencies alone"


def run_release(*arguments: object, **environment: str) -> tuple[int, str, str]:
    with tempfile.TemporaryDirectory() as said:
        out, err = Path(said) / "out", Path(said) / "err"
        status = start_forked(("release", *arguments), out, err, environment=environment).wait()
        return status, out.read_text(), err.read_text()


def test_a_checkpoint_is_released_by_hand_and_loaded_by_its_name(
    hub: HubStandIn,
    make_checkpoint: MakeCheckpoint,
    ledger: Ledger,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
):
    ledger.close()
    status, out, err = run_release(make_checkpoint(100).path, REPO, "--tag", "v1", "--tag", "best")
    assert (status, err) == (0, ""), err
    assert re.search(rf"Released at {hub.url}/{REPO} \([0-9a-f]{{8}}\)", out)
    assert set(repository(hub).tags) == {"v1", "best"} and not repository(hub).private
    text = repository(hub).head.files["README.md"].content.decode()
    assert "[asha](https://huggingface.co/asha) | 75.0%" in text and "visitor" not in text
    loading = (
        "from transformers import AutoModelForMaskedLM, AutoTokenizer\n"
        f"model = AutoModelForMaskedLM.from_pretrained('{REPO}', revision='v1')\n"
        f"tokenizer = AutoTokenizer.from_pretrained('{REPO}')\n"
        "print(type(model).__name__, len(tokenizer), model.predictions.bias.mean().item())"
    )
    assert read_from_hub(loading, tmp_path / "reader").split() == ["AlbertForMaskedLM", str(len(tokenizer)), "100.0"]


def test_a_dry_run_shows_everything_and_contacts_nobody(
    hub: HubStandIn, make_checkpoint: MakeCheckpoint, ledger: Ledger, state_folder: Path
):
    path = make_checkpoint(100).path
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    status, out, err = run_release(path, REPO, "--dry-run", "--tag", "v1")
    assert (status, err) == (0, "")
    assert hub.asked == []
    for told in ("Would go to river/boats", "the Hub was not contacted", f"Message: {TITLE}"):
        assert told in out
    assert "Tags: v1" in out and re.search(r"model\.safetensors +\d+\.\d kB", out) and "loss.png" in out
    assert "pipeline_tag: fill-mask" in out and "## Citation" in out
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "changes", "status", "said"),
    [
        (("{checkpoint}", "boats"), {}, 61, "boats is not a valid repository name; give owner/name"),
        (("{checkpoint}", "a/b/c"), {}, 61, "a/b/c is not a valid repository name"),
        (("{state}", REPO), {}, 8, "is not a checkpoint: it has no trainer_state.json"),
        (
            ("{checkpoint}", REPO),
            {"HF_TOKEN": ""},
            61,
            "there is no Hugging Face token; make one with write permission",
        ),
        (("{checkpoint}", REPO), {"HF_TOKEN": "hf_nobodys"}, 61, "the Hub does not know the Hugging Face token"),
        (("{checkpoint}", "other/boats"), {}, 61, "other/boats: this Hugging Face token may not write there"),
        (("{checkpoint}", REPO), {"HF_ENDPOINT": "http://127.0.0.1:9"}, 60, "the Hub cannot be reached"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    hub: HubStandIn,
    make_checkpoint: MakeCheckpoint,
    state_folder: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    changes: Mapping[str, str],
    status: int,
    said: str,
):
    places = {"checkpoint": make_checkpoint(100).path, "state": state_folder}
    found, out, err = run_release(*(one.format(**places) for one in arguments), **changes)
    assert found == status and err.startswith("sahaj: ") and said in err and err.count("\n") == 1, (out, err)
    assert not hub.repositories.by_name


def test_where_the_hub_may_not_be_reached_a_line_says_so(hub: HubStandIn, make_checkpoint: MakeCheckpoint):
    command = [sys.executable, "-m", "app.cli", "release", str(make_checkpoint(100).path), REPO]
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}  # it is read while importing
    done = subprocess.run(command, env=offline, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 61 and done.stderr.startswith("sahaj: ") and done.stderr.count("\n") == 1, done
    assert "HF_HUB_OFFLINE is set" in done.stderr and not hub.repositories.by_name


def test_a_card_can_be_released_anew(
    hub: HubStandIn, make_checkpoint: MakeCheckpoint, ledger: Ledger, state_folder: Path
):
    path = make_checkpoint(100).path
    assert run_release(path, REPO)[0] == run_release(path, REPO)[0] == 0
    assert len(repository(hub).revisions) == 2, "nothing had changed"
    assert b"huggingface.co/asha" in repository(hub).head.files["README.md"].content
    (state_folder / UNNAMED).write_text("asha\n")
    assert run_release(path, REPO)[0] == 0
    assert len(repository(hub).revisions) == 3
    assert b"huggingface.co/asha" not in repository(hub).head.files["README.md"].content


def test_a_flipped_bit_is_not_released(hub: HubStandIn, make_checkpoint: MakeCheckpoint):
    path = make_checkpoint(100).path
    content = bytearray((path / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (path / "model.safetensors").write_bytes(content)
    status, _, err = run_release(path, REPO)
    assert status == 8 and "model.safetensors is not what was saved" in err and err.count("\n") == 1
    assert hub.asked == []


def test_an_upload_that_was_killed_goes_on_where_it_was(
    hub: HubStandIn, make_checkpoint: MakeCheckpoint, tmp_path: Path
):
    """The model has arrived, the optimizer's state half: killed there, and started again."""
    line, path = Line(held_after=1000), make_checkpoint(100).path
    hub.repositories.lines.append(("PUT /lfs/", Line()))
    hub.repositories.lines.append(("PUT /lfs/", line))
    process = start_forked(("release", path, REPO), tmp_path / "said")
    assert line.holding.wait(PATIENCE)
    process.kill()
    process.wait()
    line.go_on.set()
    assert [one.title for one in repository(hub).revisions] == ["initial commit"]
    arrived = list(hub.repositories.received)
    assert len(arrived) == 1
    status, _, err = run_release(path, REPO)
    assert status == 0, err
    assert hub.repositories.received[:1] == arrived and arrived[0] not in hub.repositories.received[1:]
    assert [one.title for one in repository(hub).revisions[1:]] == [TITLE]
    assert repository(hub).head.files["optimizer.pt"].content == (path / "optimizer.pt").read_bytes()


def test_ctrl_c_ends_an_upload_with_one_line(hub: HubStandIn, make_checkpoint: MakeCheckpoint, tmp_path: Path):
    line, err = Line(held_after=1000), tmp_path / "err"
    hub.repositories.lines.append(("PUT /lfs/", line))
    process = start_forked(("release", make_checkpoint(100).path, REPO), tmp_path / "out", err)
    assert line.holding.wait(PATIENCE)
    process.send_signal(signal.SIGINT)
    status, said = process.wait(), err.read_text()
    line.go_on.set()
    assert status == 130 and said.startswith("sahaj: stopped; nothing is visible at http") and said.count("\n") == 1
    assert "unless the commit was on its way just then" in said
    assert [one.title for one in repository(hub).revisions] == ["initial commit"]
