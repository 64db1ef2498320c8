import os
import shutil
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import pytest
from rich.console import Console
from transformers import AlbertForPreTraining

from app.organizing.info import describe, render
from coordinator.checkpoints.checkpoint import CheckpointError
from tests.support.waiting import PATIENCE


def shown(checkpoint: Path) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(render(describe(checkpoint)))
    return captured.get()


def test_a_checkpoint_is_described_by_its_files(checkpoint: Path) -> None:
    description = describe(checkpoint)
    assert astuple(description.state)[:4] == ("river-run", 120, 30_720, 5.25)
    model = AlbertForPreTraining.from_pretrained(checkpoint)
    assert description.parameters == model.num_parameters()
    assert description.vocabulary == model.config.vocab_size
    assert dict(description.files) == {path.name: path.stat().st_size for path in checkpoint.iterdir()}
    assert "model.safetensors" in dict(description.files)


def test_the_snippet_runs_and_loads_the_checkpoint(checkpoint: Path) -> None:
    snippet = describe(checkpoint).snippet
    assert len(snippet.splitlines()) == 3
    names: dict[str, object] = {}
    exec(snippet, names)
    assert type(names["model"]).__name__ == "AlbertForMaskedLM"
    assert names["tokenizer"].mask_token == "[MASK]"  # type: ignore[attr-defined]


def test_a_person_sees_run_step_samples_loss_and_how_to_load_it(checkpoint: Path) -> None:
    text = shown(checkpoint)
    for fact in (
        "checkpoint-120",
        "river-run",
        "120",
        "30,720",
        "5.250 nats, 1.75 lower than guessing from word frequencies alone",
        "optimizer.pt",
        "from_pretrained",
    ):
        assert fact in text


def test_a_checkpoint_without_an_evaluation_says_so(checkpoint: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint-1"))
    state = copy / "trainer_state.json"
    state.write_text(state.read_text().replace("5.25", "null"))
    assert "not evaluated" in shown(copy)


def test_a_folder_that_is_no_checkpoint_ends_in_one_line(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="is not a checkpoint") as caught:
            describe(place)
        assert str(place) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "trainer_state.json"])
def test_a_truncated_file_ends_in_one_line(checkpoint: Path, tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint-1"))
    os.truncate(copy / name, 20)
    with pytest.raises(CheckpointError, match="is broken") as caught:
        describe(copy)
    assert "\n" not in str(caught.value)


def test_describing_needs_neither_torch_nor_transformers(checkpoint: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from app.organizing.info import describe; describe(Path(sys.argv[1])); "
        "print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(checkpoint)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert found.stdout.strip() == "[]"


def test_what_a_checkpoint_says_of_itself_is_no_markup(checkpoint: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint-1[red]"))
    (copy / "notes[bold].txt").touch()
    state = copy / "trainer_state.json"
    state.write_text(state.read_text().replace("river-run", "river[/red]run"))
    text = shown(copy)
    assert "checkpoint-1[red]" in text and "notes[bold].txt" in text and "river[/red]run" in text
