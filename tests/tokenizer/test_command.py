"""The whole way: a run file, its text, a tokenizer on disk, and the report on held-out text."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tokenizers import Tokenizer, models, pre_tokenizers

from swarm.errors import DataError, TokenizerError
from tokenizer.command import train_from_run, without_held_out
from tokenizer.report import TokenizerReport, measure, read_reference, table_of


def write_run(folder: Path, validation: bool = False) -> Path:
    texts = [f"The {number}th of many short documents, on walking and talking." for number in range(500)]
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts) + "{broken\n")
    (folder / "held.txt").write_text("Walking and talking documents.")
    held = "  validation: [{path: held.txt}]\n" if validation else ""
    run = "name: small\ntokenizer: {vocab_size: 300, path: tok}\ndata:\n  train: [{path: a.jsonl}]\n" + held
    (folder / "run.yaml").write_text(run)
    return folder / "run.yaml"


def test_a_run_file_becomes_a_tokenizer_and_a_report_beside_the_reference(tmp_path: Path) -> None:
    output = io.StringIO()
    console = Console(file=output, width=100)
    run = write_run(tmp_path, validation=True)
    (ours,) = train_from_run(run, console=console)
    assert (ours.documents, ours.words, ours.unknown) == (1, 4, 1)  # no W in this small text
    assert 0 < ours.tokens_per_word < 10
    train_from_run(run, output=tmp_path / "[bold]", console=console)
    assert "[bold]" in output.getvalue()
    ours, reference = train_from_run(run, output=tmp_path / "other", compare=str(tmp_path / "tok"), console=console)
    assert (reference.name, reference.tokens) == ("tok", ours.tokens)
    assert (tmp_path / "other/tokenizer.json").is_file()
    shown = output.getvalue()
    assert "Skipped 1 documents" in shown and "tokens per word" in shown and "unknown rate" in shown


def test_without_validation_every_fiftieth_document_is_held_out_and_not_trained_on(tmp_path: Path) -> None:
    (report,) = train_from_run(write_run(tmp_path), console=Console(quiet=True))
    assert report.documents == 10
    held_out: list[str] = []
    documents = [str(number) for number in range(200)]
    trained_on = list(without_held_out(documents, held_out))
    assert held_out == ["49", "99", "149", "199"]
    assert sorted(trained_on + held_out) == sorted(documents)


def test_a_wrong_reference_is_found_before_the_training(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    for compare in (str(tmp_path / "none.json"), str(run)):
        with pytest.raises(TokenizerError, match=r"to compare with.*; give a tokenizer\.json"):
            train_from_run(run, compare=compare, console=Console(quiet=True))
    assert not (tmp_path / "tok").exists()


def test_a_run_without_text_leaves_nothing_behind(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (tmp_path / "a.jsonl").write_text("{broken\n")
    with pytest.raises(DataError, match=r"a\.jsonl: not one usable document"):
        train_from_run(run, console=Console(quiet=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "held.txt", "run.yaml"]


def test_words_tokens_and_unknowns_are_counted(tmp_path: Path) -> None:
    engine = Tokenizer(models.WordLevel({"one": 0, "two": 1, "?": 2}, unk_token="?"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    engine.enable_truncation(2)  # must not shorten what is counted
    engine.save(str(tmp_path / "t.json"))
    report = measure("t", read_reference(str(tmp_path / "t.json")), ["one two three", "one, two"])
    assert report == TokenizerReport("t", vocabulary=3, documents=2, words=5, tokens=6, unknown=2)
    assert report.tokens_per_word == 6 / 5 and report.unknown_rate == 2 / 6
    console = Console(file=io.StringIO(), width=80)
    console.print(table_of([replace(report, name="[/b] t")]))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1.200" in shown and "[/b] t" in shown


def test_on_bengali_it_is_no_worse_than_the_tokenizer_of_sahajbert(bengali: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "name: bengali\nlanguage: bn\ntokenizer: {vocab_size: 32000}\ndata:\n"
        f"  train: [{{path: {bengali}/train.jsonl}}]\n  validation: [{{path: {bengali}/validation.jsonl}}]\n"
    )
    ours, reference = train_from_run(
        tmp_path / "run.yaml", compare=str(bengali / "sahajbert_tokenizer.json"), console=Console(quiet=True)
    )
    assert ours.words == reference.words
    assert ours.vocabulary <= reference.vocabulary == 32_000
    assert ours.tokens_per_word <= reference.tokens_per_word
    assert ours.unknown_rate < 0.001
