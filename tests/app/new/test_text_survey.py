"""Looking at a text: what there is of it, where it may be, and what is too little."""

import json
import math
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from app.new import sources, text_survey
from app.new.sources import as_entries, held_out_file, is_part_of, source_of, told_documents
from app.new.text_survey import count_tokens, look
from swarm.errors import DataError
from swarm.run_file import DataSource
from tests.app.new.texts import write_text


def test_a_local_text_is_counted_whole(tmp_path: Path):
    seen = look(source_of(str(write_text(tmp_path / "text.jsonl")), "text"))
    assert (seen.documents, seen.all_documents) == (60, 60)
    assert len(seen.sample) == 60
    counted = count_tokens(seen, "en")
    assert counted.vocabulary == 2000
    assert counted.tokens == pytest.approx(counted.tokens_per_word * 60 * 250, rel=0.1)
    assert counted.tokens_per_document == pytest.approx(counted.tokens / 60)


def test_words_of_english_are_a_few_tokens(tmp_path: Path):
    (tmp_path / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in topics.values()))
    counted = count_tokens(look(source_of(str(tmp_path / "text.jsonl"), "text")), "en")
    assert 1.2 < counted.tokens_per_word < 3.5


@pytest.mark.parametrize("told, tokens", [(6_000.0, "a hundred times"), (math.inf, "endless")])
def test_of_a_large_text_only_the_beginning_is_read(told, tokens, tmp_path, monkeypatch):
    source = source_of(str(write_text(tmp_path / "text.jsonl")), "text")
    whole = count_tokens(look(source), "en").tokens
    monkeypatch.setitem(text_survey.MOST_CHARACTERS, "here", 60_000)
    monkeypatch.setattr(text_survey, "told_documents", lambda source: told)
    seen = look(source)
    assert seen.documents < 60
    found = count_tokens(seen, "en").tokens
    assert found == (math.inf if tokens == "endless" else pytest.approx(100 * whole, rel=0.1))


@pytest.mark.parametrize("documents, words", [(19, 900), (60, 20)])
def test_too_little_text_is_refused(documents: int, words: int, tmp_path: Path):
    source = source_of(str(write_text(tmp_path / "text.jsonl", documents, words)), "text")
    with pytest.raises(DataError, match=f"too little text, {documents} documents with .* characters"):
        look(source)


def test_where_a_text_may_be(tmp_path: Path):
    assert source_of("owner/name", "body") == DataSource(hub="owner/name", text_column="body")
    assert source_of("owner/name:20231101.bn", "text").config == "20231101.bn"
    assert source_of("owner/name::test", "text") == DataSource(hub="owner/name", split="test")
    (tmp_path / "texts").mkdir()
    assert source_of(str(tmp_path / "texts"), "text").path == str(tmp_path / "texts")


@pytest.mark.parametrize("answer", ["missing.jsonl", "texts/missing.jsonl", "name", "a/b:c:d:e", "/no/such/folder", ""])
def test_what_is_no_text_ends_in_one_line(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(DataError) as told:
        look(source_of(answer, "text"))
    assert "\n" not in str(told.value)


def test_the_run_file_says_no_more_of_a_source_than_it_must(tmp_path: Path):
    assert as_entries(source_of("owner/name:bn", "text"), tmp_path) == {"hub": "owner/name", "config": "bn"}
    beside = write_text(tmp_path / "text.jsonl")
    assert as_entries(source_of(str(beside), "text"), tmp_path) == {"path": "text.jsonl"}
    assert as_entries(source_of(str(beside), "text"), tmp_path / "run") == {"path": str(beside)}


def test_a_validation_file_beside_the_text_is_found(tmp_path: Path):
    source = source_of(str(write_text(tmp_path / "train.jsonl")), "text")
    assert held_out_file(source) is None
    write_text(tmp_path / "validation.jsonl")
    found = held_out_file(source)
    assert found is not None and found.path == str(tmp_path / "validation.jsonl")
    assert held_out_file(found) is None
    (tmp_path / "other.txt").touch()
    assert held_out_file(DataSource(path=str(tmp_path / "other.txt"))) is None, "it was cut from train.jsonl"


def test_text_to_measure_on_is_not_trained_on(tmp_path: Path):
    def local(path: Path) -> DataSource:
        return DataSource(path=str(path))

    folder, beside = local(tmp_path / "text"), local(tmp_path / "text.jsonl")
    inside, other = local(tmp_path / "text" / "more" / ".." / "validation.jsonl"), DataSource(hub="a/b", config="bn")
    assert is_part_of(inside, folder) and is_part_of(folder, inside) and is_part_of(folder, folder)
    assert not (is_part_of(beside, folder) or is_part_of(other, folder) or is_part_of(folder, other))
    assert is_part_of(other, other.model_copy(update={"weight": 2.0}))
    assert not is_part_of(other.model_copy(update={"split": "test"}), other)


def test_what_the_hub_does_not_know_is_endless(monkeypatch: pytest.MonkeyPatch):
    datasets = pytest.importorskip("datasets")

    asked: list[object] = []

    def unknown(*_: object, token: object) -> object:
        asked.append(token)
        raise ConnectionError("no network")

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(datasets, "load_dataset_builder", unknown)
    monkeypatch.setattr(datasets, "get_dataset_split_names", unknown)
    assert told_documents(DataSource(hub="owner/name")) == math.inf
    with pytest.raises(DataError, match="owner/name: its splits are not known"):
        sources.held_out_split(DataSource(hub="owner/name"))
    assert asked == ["hf_secret"] * 2


@pytest.mark.parametrize(
    "splits, found", [(["train", "test", "validation"], "validation"), (["train", "test"], "test")]
)
def test_held_out_text_is_a_split_of_the_dataset(splits, found, monkeypatch: pytest.MonkeyPatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_, **__: splits)
    source = sources.held_out_split(DataSource(hub="owner/name", config="bn"))
    assert source == DataSource(hub="owner/name", config="bn", split=found)
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda *_, **__: ["train"])
    assert sources.held_out_split(DataSource(hub="owner/name")) is None
