"""The run file that everybody may read."""

from pathlib import Path

from coordinator.public_run import for_everybody
from swarm.run_file import AccessSection, RunFile, dump_run, load_run
from tests.coordinator.release.conftest import run as run


def test_the_run_file_in_a_release_names_no_people_and_no_folders(run: RunFile, tmp_path: Path):
    secret = run.coordinator.model_copy(update={"ledger": "postgresql://asha:password@host/db"})
    tokenizer = run.tokenizer.model_copy(update={"path": "~asha/words"})
    access = run.access.model_copy(update={"robust": "enforce"})
    changed = run.model_copy(update={"coordinator": secret, "tokenizer": tokenizer, "access": access})
    text = dump_run(for_everybody(changed))
    assert not any(word in text for word in ("asha", "password", "/home/", "boat\n"))
    (tmp_path / "run.yaml").write_text(text)
    read = load_run(tmp_path / "run.yaml")
    assert read.data.train[1].path == "river.txt" and read.optimizer == run.optimizer
    assert read.access == AccessSection(robust="enforce")  # on which peers agree
