"""`sahaj new` as an organizer types it: with flags, with answers at a terminal, and with wrong ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from app.cli import app
from app.commands import new
from app.new.sizing import SizingError
from app.plan.table import read_table
from corpus.documents import open_documents
from swarm.errors import SahajError
from swarm.run_file import load_run
from tests.app.new.texts import write_text
from tokenizer.command import train_from_run

FILES = {"run.yaml", "volunteers.csv", "train.jsonl", "validation.jsonl"}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_text(tmp_path / "text.jsonl")


def sahaj_new(*arguments: object, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, ["new", *map(str, arguments)], input=typed)


def flags(text: Path) -> list[object]:
    return ["--text", text, "--language", "en", "--volunteers", "12 t4, 15 laptop", "--days", "10"]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_flags_are_enough(text: Path, tmp_path: Path):
    folder = tmp_path / "My run"
    done = sahaj_new(folder, *flags(text))
    assert done.exit_code == 0, done.output
    assert names(folder) == FILES
    run = load_run(folder / "run.yaml")
    assert (run.name, run.language, run.access.open) == ("my-run", "en", True)
    assert run.model.hidden_size == 128  # for so little text
    assert run.tokenizer.vocab_size == 2000
    lines = (folder / "run.yaml").read_text().splitlines()
    assert all(line.startswith("#") or " # " in line for line in lines if line)
    assert max(map(len, lines)) <= 120
    for said in ("sahaj tokenizer train run.yaml", "sahaj coordinator run.yaml", "sahaj plan volunteers.csv"):
        assert said in done.output


def test_the_text_is_cut_in_two(text: Path, tmp_path: Path):
    sahaj_new(tmp_path / "run", *flags(text))
    run = load_run(tmp_path / "run" / "run.yaml")
    training, held_out, whole = (
        list(open_documents(run, sources, seed=0, repeat=False, shuffle=False))
        for sources in (run.data.train, run.data.validation, [run.data.train[0].model_copy(update={"path": str(text)})])
    )
    assert len(held_out) == 3
    assert sorted(training + held_out) == sorted(whole)


def test_the_text_is_read_once(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    read: list[str] = []

    def reading(*given: Any, **options: Any) -> Iterator[str]:
        for one in open_documents(*given, **options):
            read.append(one)
            yield one

    monkeypatch.setattr("app.new.sources.open_documents", reading)
    monkeypatch.setattr(new, "BEGINNING", 3)
    assert sahaj_new(tmp_path / "run", *flags(text)).exit_code == 0
    assert len(read) == 3 + 60


def test_what_comes_next_works(text: Path, tmp_path: Path):
    sahaj_new(tmp_path / "run", *flags(text))
    (report,) = train_from_run(tmp_path / "run" / "run.yaml")
    assert report.documents == 3
    rows = read_table(tmp_path / "run" / "volunteers.csv")
    assert [(row.device, row.count) for row in rows] == [("coordinator", 1), ("t4", 12), ("laptop", 15)]


def test_held_out_text_and_members_that_are_named_stand_in_the_run_file(text: Path, tmp_path: Path):
    held_out = write_text(tmp_path / "other.jsonl", documents=3)
    done = sahaj_new(
        tmp_path / "run", *flags(text), "--held-out", held_out, "--organization", "a-community", "--user", "alice"
    )
    assert done.exit_code == 0, done.output
    run = load_run(tmp_path / "run" / "run.yaml")
    assert (run.data.train[0].path, run.data.validation[0].path) == (str(text), str(held_out))
    assert (run.access.open, run.access.organizations, run.access.users) == (False, ["a-community"], ["alice"])
    assert names(tmp_path / "run") == {"run.yaml", "volunteers.csv"}


def test_nothing_is_overwritten_unasked(text: Path, tmp_path: Path):
    assert sahaj_new(tmp_path / "run", *flags(text)).exit_code == 0
    (tmp_path / "run" / "run.yaml").write_text("mine")
    refused = sahaj_new(tmp_path / "run", *flags(text))
    assert "already there; name another folder" in str(refused.exception)
    assert (tmp_path / "run" / "run.yaml").read_text() == "mine"
    assert sahaj_new(tmp_path / "run", *flags(text), "--overwrite").exit_code == 0
    assert load_run(tmp_path / "run" / "run.yaml").name == "run"


@pytest.mark.parametrize(
    "wrong, message",
    [
        (["--text", "~nobody-at-all/text"], "~nobody-at-all/text: cannot be read"),
        (["--text", "missing.jsonl"], "missing.jsonl: no such file or folder"),
        (["--days", "ten"], "ten: days must be a number"),
        (["--days", "0"], "0: days must be a number above 0"),
        (["--days", "nan"], "nan: days must be a number"),
        (["--volunteers", "3 toasters"], "toasters: no such kind of machine"),
        (["--volunteers", "missing.csv"], "missing.csv: no such table"),
        (["--language", "Bengali!"], "not the code of a language"),
        (["--name", "My Run"], "a run's name has lower case letters"),
        (["--held-out", "missing.txt"], "missing.txt: no such file or folder"),
        (["--measured-with", "missing.yaml"], "missing.yaml: no such run file"),
        (["--text-column", "body"], "no column 'body'"),
    ],
)
def test_a_wrong_flag_is_one_line_and_writes_nothing(wrong: list[str], message: str, text: Path, tmp_path: Path):
    refused = sahaj_new(tmp_path / "run", *flags(text), *wrong)
    assert isinstance(refused.exception, SahajError)
    assert message in str(refused.exception)
    assert "\n" not in str(refused.exception)
    assert not (tmp_path / "run").exists()


def test_held_out_text_that_is_trained_on_is_refused(text: Path, tmp_path: Path):
    refused = sahaj_new(tmp_path / "run", *flags(text.parent), "--held-out", text)
    assert f"{text}: is in the text to train on ({text.parent})" in str(refused.exception)
    assert not (tmp_path / "run").exists()


def test_a_useless_validation_jsonl_beside_the_text_is_left_out(text: Path, tmp_path: Path):
    (tmp_path / "validation.jsonl").write_text("{broken\n")
    done = sahaj_new(tmp_path / "run", *flags(text))
    assert "validation.jsonl: not one usable document" in done.output and "it is left out" in done.output
    assert (tmp_path / "run" / "validation.jsonl").exists()


def test_a_folder_that_cannot_be_written_is_told_before_any_question(text: Path, tmp_path: Path):
    refused = sahaj_new(text / "run", "--text", "missing.jsonl")
    assert str(refused.exception) == f"{text}/run/run.yaml: {text} cannot be written; choose another folder"


def test_commands_to_type_next_hold_odd_names(tmp_path: Path):
    text, held_out = write_text(tmp_path / "a text.jsonl"), write_text(tmp_path / "other.jsonl", documents=3)
    done = sahaj_new(tmp_path / "a run", *flags(text), "--held-out", held_out)
    assert f"  cd '{tmp_path}/a run'\n" in done.output
    assert f"  hf upload owner/name '{text}' --repo-type dataset" in done.output


def test_without_a_terminal_a_missing_text_is_told(tmp_path: Path):
    refused = sahaj_new(tmp_path / "run", "--days", "3")
    assert str(refused.exception) == "--text is missing, and there is no terminal to ask at"


def test_too_little_text_is_told(tmp_path: Path):
    text = write_text(tmp_path / "text.jsonl", documents=5)
    refused = sahaj_new(tmp_path / "run", *flags(text))
    assert "5 documents with" in str(refused.exception)
    assert not names(tmp_path / "run")


def test_a_run_that_does_not_fit_leaves_nothing_in_the_way_of_the_next_try(text: Path, tmp_path: Path):
    refused = sahaj_new(tmp_path / "run", *flags(text), "--days", "0.00001")
    assert "allow more days" in str(refused.exception)
    assert not names(tmp_path / "run")


@pytest.mark.parametrize("failure", [SizingError("no run fits"), KeyboardInterrupt(), RuntimeError()])
def test_a_try_that_fails_leaves_the_earlier_run_as_it_was(
    failure: BaseException, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "run"
    sahaj_new(folder, *flags(text))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == FILES
    monkeypatch.setattr("app.new.new.choose", Mock(side_effect=failure))
    other = write_text(tmp_path / "other.jsonl", documents=80)
    assert sahaj_new(folder, *flags(other), "--overwrite").exit_code
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_text_that_would_be_overwritten_is_refused(tmp_path: Path):
    text = write_text(tmp_path / "train.jsonl")
    before = text.read_bytes()
    for given in (text, tmp_path):
        refused = sahaj_new(tmp_path, *flags(given), "--overwrite")
        assert "would be written there; name another folder for the run" in str(refused.exception)
    assert names(tmp_path) == {"train.jsonl"}
    assert text.read_bytes() == before


def test_questions_are_asked_until_the_answers_are_right(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(new, "_has_terminal", lambda: True)
    little = write_text(tmp_path / "little.jsonl", documents=5)
    texts = ["missing.jsonl", str(little), str(text)]
    answers = [*texts, "", "3 toasters", "5 laptop", "-1", "30", "Rivers!", "rivers", ""]
    done = sahaj_new(tmp_path / "run", typed="\n".join(answers) + "\n")
    assert done.exit_code == 0, done.output
    run = load_run(tmp_path / "run" / "run.yaml")
    assert (run.name, run.language, run.access.open) == ("rivers", "en", True)
    for said in ("missing.jsonl: no such", "toasters: no such kind", "-1: days must be", "Rivers!: a run's name"):
        assert said in done.output
    assert "5 documents with" in done.output


def test_a_language_is_guessed_from_its_script(tmp_path: Path):
    text = tmp_path / "text.jsonl"
    lines = (json.dumps({"text": "নদীর পানি নৌকা বয়ে সাগরে যায়। " * 60}) for _ in range(40))
    text.write_text("\n".join(lines))
    done = sahaj_new(tmp_path / "run", "--text", text, "--days", "2")
    assert done.exit_code == 0, done.output
    assert load_run(tmp_path / "run" / "run.yaml").language == "bn"


def test_a_dataset_on_the_hub_needs_held_out_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import app.new.sources as sources

    text = write_text(tmp_path / "text.jsonl")
    local = sources.source_of(str(text), "text")
    read = sources.open_documents
    monkeypatch.setattr(sources, "open_documents", lambda run, _, **options: read(run, [local], **options))
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_, **__: ["train"])
    given = ["--text", "owner/name:bn", "--days", "2"]
    refused = sahaj_new(tmp_path / "run", *given)
    assert "--held-out is missing" in str(refused.exception)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_, **__: ["train", "test"])
    done = sahaj_new(tmp_path / "run", *given)
    assert done.exit_code == 0, done.output
    run = load_run(tmp_path / "run" / "run.yaml")
    training, held_out = run.data.train[0], run.data.validation[0]
    assert (training.hub, training.config, training.split) == ("owner/name", "bn", "train")
    assert (held_out.hub, held_out.config, held_out.split) == ("owner/name", "bn", "test")
