"""Whatever is wrong with the data: one line that names the file, the line and the way out, and nothing written."""

import tempfile
from pathlib import Path

import pytest

from downstream.comparison import Comparison
from downstream.data.loading import DataOptions, load_data
from downstream.tasks import TASKS
from downstream.training import Settings
from swarm.errors import DataError
from tests.support.forked import start_forked
from tests.support.waiting import PATIENCE

GOOD_CONLL = "ঢাকা\tB-LOC\nযাই\tO\n\nআমি\tO\n\n"
GOOD_ROWS = '{"text": "ভালো", "label": "positive"}\n{"text": "খারাপ", "label": "negative"}\n'
GOOD = {"ner": GOOD_CONLL, "classify": GOOD_ROWS}
SUFFIX = {"ner": "conll", "classify": "jsonl"}

CASES: list[tuple[str, str, str, str | bytes | None, list[str]]] = [
    ("ner", "train", "a.conll", "ঢাকা\tB-LOC\nযাই\n", ["a.conll:2", "'যাই' has no tag", "a tab and its tag"]),
    ("ner", "train", "a.conll", "ঢাকা\tB-LOC\n\tO\n", ["a.conll:2", "has no token"]),
    ("ner", "test", "a.conll", "ঢাকা\tB-LOC\nযাই\t\n", ["a.conll:2", "'যাই' is empty", "correct it"]),
    ("ner", "train", "a.conll", "ঢাকা\tLOC\n", ["a.conll:1", "'LOC' is not a tag of BIO, BIOES or BILOU", "B-TYPE"]),
    ("ner", "train", "a.conll", "ঢাকা\tM-LOC\n", ["a.conll:1", "'M-LOC'"]),
    ("ner", "test", "a.conll", "ঢাকা\tS-LOC\n\nঢাকা\tU-LOC\n", ["BIOES at", "a.conll:1", "BILOU at", "a.conll:3"]),
    ("ner", "train", "a.conll", "ঢাকা\tB-\n", ["a.conll:1", "'B-'"]),
    ("ner", "train", "a.conll", "ঢাকা\tO\n", ["a.conll", "every tag is O"]),
    ("ner", "train", "a.conll", "", ["a.conll", "train split is empty"]),
    ("ner", "validation", "a.conll", "\n\n", ["a.conll", "validation split is empty"]),
    ("ner", "test", "a.conll", None, ["a.conll", "no such file"]),
    ("ner", "test", "a.conll", "ঢাকা\tB-LOC\n".encode() + b"\xff\xfe\tO\n", ["a.conll:2", "not UTF-8", "convert"]),
    (
        "ner",
        "test",
        "a.conll",
        "\nআশা\tB-EVENT\n",
        ["a.conll:2", "'B-EVENT'", "test split", "B-LOC", "like every label"],
    ),
    ("ner", "train", "a.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}\n', ["a.jsonl:1", "2 tokens but 1 tags"]),
    ("ner", "train", "a.jsonl", '{"tokens": [], "tags": []}\n', ["a.jsonl:1", "without tokens"]),
    ("ner", "train", "a.jsonl", '{"tokens": ["a"], "labels": ["O"]}\n', ["a.jsonl:1", "tags", "--label-column"]),
    ("ner", "train", "a.jsonl", '{"tokens": "a", "tags": 7}\n', ["a.jsonl:1", "tags must be a list"]),
    ("ner", "train", "a.csv", "tokens,tags\na b,O B-X-Y O\n", ["a.csv:2", "2 tokens but 3 tags"]),
    ("ner", "test", "a.jsonl", '{"tokens": ["\\ud83d"], "tags": ["O"]}\n', ["a.jsonl:1", "surrogate", "correct"]),
    ("ner", "test", "x" * 300, None, ["x" * 300, "name too long", "correct the path"]),
    ("classify", "train", "a.jsonl", '{"text": "a \\ud83d", "label": 1}\n', ["a.jsonl:1", "surrogate", "correct"]),
    ("classify", "train", "a.jsonl", '{"text": "a"}\n', ["a.jsonl:1", "no column label", "text", "--label-column"]),
    ("classify", "train", "a.jsonl", '{"comment": "a", "label": 1}\n', ["a.jsonl:1", "text", "--input-column"]),
    ("classify", "train", "a.jsonl", '{"text": "a", "label": 1}\n["b"]\n', ["a.jsonl:2", "not a JSON object"]),
    ("classify", "train", "a.jsonl", '{"text": " ", "label": 1}\n', ["a.jsonl:1", "must not be empty"]),
    ("classify", "train", "a.jsonl", '{"text": "a", "label": null}\n', ["a.jsonl:1", "label must be"]),
    ("classify", "train", "a.jsonl", '{"text": "a", "label": "x"}\n', ["a.jsonl", "every label is 'x'", "two"]),
    ("classify", "validation", "a.csv", "text,label\n", ["a.csv", "validation split is empty"]),
    ("classify", "test", "a.csv", "text,label\na,neutral\n", ["a.csv:2", "'neutral'", "positive"]),
    ("classify", "test", "a.csv", "text,label\na,b,c\n", ["a.csv:2", "3 columns", "double quotes"]),
    ("classify", "test", "a.csv", 'text,label\n"a,b\n', ["a.csv:2", "close its quotes"]),
    ("classify", "test", "a.csv", b"text,label\n\xe0\xa6,x\n", ["a.csv:2", "not UTF-8"]),
    ("classify", "test", "a.parquet", b"PAR1", ["a.parquet", "'.parquet'", ".jsonl"]),
]


@pytest.mark.parametrize(("task", "bad", "name", "content", "words"), CASES)
def test_bad_data_is_named_with_its_place_and_the_way_out(
    tmp_path: Path, task: str, bad: str, name: str, content: str | bytes | None, words: list[str]
):
    files = good_files(tmp_path, task) | {bad: tmp_path / name}
    if content is not None:
        files[bad].write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as caught:
        Comparison(
            TASKS[task](),
            load_data(TASKS[task](), DataOptions(files["train"], files["validation"], files["test"]), training=True),
            Settings(),
        )
    message = str(caught.value)
    assert "\n" not in message
    missing = [word for word in words if word not in message]
    assert not missing, f"{message!r} does not name {missing}"


def good_files(folder: Path, task: str) -> dict[str, Path]:
    """Three splits in which nothing is wrong yet."""
    files = {split: folder / f"{split}.{SUFFIX[task]}" for split in ("train", "validation", "test")}
    for file in files.values():
        file.write_text(GOOD[task], encoding="utf-8")
    return files


def test_the_command_ends_with_one_line_and_writes_nothing(tmp_path: Path, pretrained: Path):
    files = good_files(tmp_path, "ner")
    files["train"].write_text("ঢাকা\tB-LOC\nযাই\n", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    data = [part for split, file in files.items() for part in (f"--{split}", file)]
    with tempfile.TemporaryDirectory() as said:
        out, err = Path(said) / "out", Path(said) / "err"
        status = start_forked(
            ("finetune", "ner", "--model", pretrained, *data, "--out", "tuned", "--json", "results.json"),
            out,
            err,
            cwd=tmp_path,
        ).wait(PATIENCE)
        assert out.read_text() == ""
        (line,) = err.read_text().splitlines()
    assert line == (f"sahaj: {files['train']}:2: 'যাই' has no tag; each line must be a token, a tab and its tag")
    assert status == DataError.exit_status
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("task", TASKS)
def test_a_split_that_was_not_given_is_named(task: str):
    with pytest.raises(DataError, match="the train split is missing; give --train FILE, or --dataset"):
        load_data(TASKS[task](), DataOptions(), training=True)


def test_a_dataset_and_files_cannot_be_used_together(tmp_path: Path):
    with pytest.raises(DataError, match="--dataset wikiann-bn and --test cannot be used together; give only one"):
        load_data(TASKS["ner"](), DataOptions(test=tmp_path / "a", dataset="wikiann-bn"), training=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no such name", "no such dataset; give wikiann-bn"),
        ("nobody/nothing", "nobody/nothing: cannot be loaded|no such"),
    ],
)
def test_a_dataset_that_cannot_be_had_is_named(monkeypatch: pytest.MonkeyPatch, name: str, words: str):
    import datasets
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    with pytest.raises(DataError, match=words) as caught:
        load_data(TASKS["ner"](), DataOptions(dataset=name), training=True)
    assert "\n" not in str(caught.value)


def test_a_dataset_without_a_split_is_named(tmp_path: Path):
    import datasets

    datasets.Dataset.from_dict({"text": ["a"], "label": ["b"]}).to_parquet(tmp_path / "train.parquet")
    with pytest.raises(DataError, match="no split validation, but train"):
        load_data(TASKS["classify"](), DataOptions(dataset=str(tmp_path)), training=True)
