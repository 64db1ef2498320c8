"""Files that are as they should be."""

from pathlib import Path

import datasets
import pytest

from downstream.data.conll import read_conll
from downstream.data.examples import Example, Split, TaskData, read_rows
from downstream.data.hub_dataset import PRESETS, DatasetName, parse_name
from downstream.data.loading import DataOptions, load_data, seen_in_training
from downstream.tasks.classify import Classification
from downstream.tasks.ner import NamedEntities
from downstream.tasks.task import Columns


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_conll_with_tabs_or_spaces_blank_lines_comments_and_four_columns(tmp_path: Path):
    content = (
        "\ufeff-DOCSTART- -X- O O\r\n\r\n# id 17 domain=bn\nঢাকা\tB-LOC\nমহা নগর\tI-LOC\n\n\n \nআমি _ _ O\nযাই _ _ O\n"
    )
    split = read_conll(written(tmp_path / "a.conll", content), "train")
    assert [example.inputs for example in split.examples] == [("ঢাকা", "মহা নগর"), ("আমি", "যাই")]
    assert [example.labels for example in split.examples] == [("B-LOC", "I-LOC"), ("O", "O")]
    assert split.examples[1].place.endswith("a.conll:9")


def test_a_few_empty_tags_in_a_large_file_are_left_out_and_told(tmp_path: Path):
    good = "ঢাকা\tB-LOC\n\n"
    split = read_conll(written(tmp_path / "a.conll", good * 120 + "ফারুক\t\nযান\tO\n\n" + good * 80), "train")
    assert len(split.examples) == 200
    (told,) = split.left_out
    assert "a.conll:241" in told and "ফারুক" in told


def test_json_lines_and_tables_give_the_same_rows(tmp_path: Path):
    jsonl = written(tmp_path / "a.jsonl", '{"text": "ভালো, বই", "label": "ভালো"}\n\n{"text": "খারাপ", "label": "মন্দ"}\n')
    table = written(tmp_path / "a.csv", 'text,label\n"ভালো, বই",ভালো\n\nখারাপ,মন্দ\n')
    tabs = written(tmp_path / "a.tsv", "text\tlabel\nভালো, বই\tভালো\nখারাপ\tমন্দ\n")
    rows = [[row.values for row in read_rows(path)] for path in (jsonl, table, tabs)]
    assert rows[0] == rows[1] == rows[2]


def test_a_row_knows_its_line_even_after_a_cell_of_several_lines(tmp_path: Path):
    table = written(tmp_path / "a.csv", 'text,label\n"এক\nদুই",a\nতিন,b\n')
    assert [row.place.rpartition(":")[2] for row in read_rows(table)] == ["2", "4"]


def test_a_cell_may_be_longer_than_csv_takes_by_itself(tmp_path: Path):
    (row,) = read_rows(written(tmp_path / "a.csv", f"text,label\n{'a' * 200_000},b\n"))
    assert len(row.values["text"]) == 200_000


def test_named_entities_come_as_lists_or_as_text_with_spaces(tmp_path: Path):
    jsonl = written(tmp_path / "a.jsonl", '{"tokens": ["ঢাকা", "যাই"], "ner_tags": ["B-LOC", "O"]}\n')
    table = written(tmp_path / "a.csv", "words,tags\nঢাকা যাই,B-LOC O\n")
    found = [
        load_data(NamedEntities(), DataOptions(test=path), training=False).test.examples for path in (jsonl, table)
    ]
    assert found[0][0].inputs == found[1][0].inputs == ("ঢাকা", "যাই")
    assert found[0][0].labels == found[1][0].labels == ("B-LOC", "O")


def test_other_columns_can_be_named(tmp_path: Path):
    path = written(tmp_path / "a.csv", "id,comment,stars\n1,ভালো,5\n")
    options = DataOptions(test=path, columns=Columns("comment", "stars"))
    (example,) = load_data(Classification(), options, training=False).test.examples
    assert (example.inputs, example.labels) == (("ভালো",), ("5",))


def test_datasets_of_the_hub_are_read_with_the_names_of_their_labels(tmp_path: Path):
    tags = datasets.List(datasets.ClassLabel(names=["O", "B-PER", "I-PER"]))
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "ner_tags": tags})
    for split, numbers in (("train", [1, 2]), ("validation", [1, 0]), ("test", [0, 1])):
        rows = {"tokens": [["সুকুমার", "রায়"]], "ner_tags": [numbers]}
        datasets.Dataset.from_dict(rows, features).to_parquet(tmp_path / f"{split}.parquet")
    corpus = load_data(NamedEntities(), DataOptions(dataset=str(tmp_path)), training=True)
    assert [split.examples[0].labels for split in corpus.splits] == [("B-PER", "I-PER"), ("B-PER", "O"), ("O", "B-PER")]
    assert corpus.test.examples[0].place.endswith("test row 1")


def test_the_tasks_of_sahajbert_have_names_of_their_own():
    assert set(PRESETS) == {"wikiann-bn", "indicglue-sna.bn"}
    assert parse_name("wikiann-bn") == DatasetName("unimelb-nlp/wikiann", "bn")
    assert parse_name("indicglue-sna.bn") == DatasetName("ai4bharat/indic_glue", "sna.bn")


@pytest.mark.parametrize(
    ("name", "found"),
    [("owner/data", DatasetName("owner/data")), ("owner/data:bn", DatasetName("owner/data", "bn"))],
)
def test_any_dataset_of_the_hub_can_be_named(name: str, found: DatasetName):
    assert parse_name(name) == found


def test_a_type_of_entity_has_both_tags_even_where_training_has_but_one():
    split = Split("train", "a.conll", (Example(("a", "b"), ("B-PER", "I-ORG"), "a.conll:1"),))
    assert NamedEntities().labels(split) == ("O", "B-ORG", "I-ORG", "B-PER", "I-PER")


def test_test_examples_that_were_trained_on_are_counted():
    first, second = (Example((text,), ("x",), "here") for text in "ab")
    corpus = TaskData(Split("test", "t", (first, second)), Split("train", "t", (first,)), Split("validation", "t", ()))
    assert seen_in_training(corpus) == 1
