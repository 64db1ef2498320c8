"""A run file with a comment in every line reads back as the values that were written."""

import pytest

from app.new.writing import Section, Setting, content, to_yaml
from swarm.run_file.strict_yaml import read_yaml

TREE: dict[str, Setting | Section] = {
    "name": Setting("a-run", "it is called so"),
    "data": Section(
        "the text",
        {
            "train": Section(
                "sources", {"path": Setting("a # b.txt", "here"), "weight": Setting(1.0, "all")}, in_list=True
            ),
            "max_length": Setting(64, "short"),
        },
    ),
    "optimizer": Section("how", {"betas": Setting([0.9, 0.98], "both"), "learning_rate": Setting(2.8e-05, "small")}),
}


def test_values_survive():
    assert read_yaml(to_yaml("Made.", TREE)) == content(TREE)
    assert content(TREE)["data"]["train"] == [{"path": "a # b.txt", "weight": 1.0}]


def test_every_line_has_its_reason():
    lines = to_yaml("Made.\nBy hand.", TREE).splitlines()
    assert lines[:2] == ["# Made.", "# By hand."]
    assert all(line.startswith("#") or " # " in line for line in lines if line)
    assert "    - path: 'a # b.txt' # here" in lines
    assert "      weight: 1.0 # all" in lines


@pytest.mark.parametrize("value", ["no", "2024", "a: b", "#1", "", "গল্প", "1e3", True, [], ["alice", "bob"], 0.3])
def test_odd_values_are_quoted_where_yaml_needs_it(value: object):
    assert read_yaml(to_yaml("", {"key": Setting(value, "odd")})) == {"key": value}
