"""The fingerprint: equal where peers agree, different where they do not, and what differs by name."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swarm.run_file import RunFile, parse_run
from swarm.run_file.fingerprint import differences, fingerprint

TOKENIZER = "9f86d081884c7d65"


def run(**sections: Any) -> RunFile:
    """A run with the given sections; `data` is added to a source of text."""
    data = {"train": [{"path": "corpus.txt"}]} | sections.pop("data", {})
    return parse_run({"name": "tiny", "data": data} | sections, Path("run.yaml"))


def test_equal_runs_have_equal_fingerprints():
    assert fingerprint(run(), TOKENIZER) == fingerprint(run(), TOKENIZER)
    assert differences(fingerprint(run(), TOKENIZER), fingerprint(run(), TOKENIZER)) == []


def test_a_default_that_is_written_out_changes_nothing():
    written_out = run(
        model={"hidden_size": 1024},
        optimizer={"learning_rate": 1.76e-3, "betas": [0.9, 0.999]},
        averaging={"compression": "8bit"},
    )
    assert fingerprint(written_out, TOKENIZER).digest == fingerprint(run(), TOKENIZER).digest


def test_a_whole_number_and_the_same_with_a_point_are_one_value():
    whole, pointed = run(optimizer={"max_gradient_norm": 1}), run(optimizer={"max_gradient_norm": 1.0})
    assert fingerprint(whole, TOKENIZER).digest == fingerprint(pointed, TOKENIZER).digest


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"optimizer": {"learning_rate": 0.002}}, "optimizer.learning_rate: 0.00176 here, 0.002 there"),
        ({"optimizer": {"betas": [0.9, 0.98]}}, "optimizer.betas: [0.9, 0.999] here, [0.9, 0.98] there"),
        ({"optimizer": {"name": "adamw"}}, "optimizer.name: lamb here, adamw there"),
        ({"model": {"seed": 1}}, "model.seed: 0 here, 1 there"),
        ({"averaging": {"compression": "none"}}, "averaging.compression: 8bit here, none there"),
        ({"averaging": {"overlap": False}}, "averaging.overlap: true here, false there"),
        ({"averaging": {"snapshot_every": 7}}, "averaging.snapshot_every: 10 here, 7 there"),
        ({"averaging": {"target_group_size": 8}}, "averaging.target_group_size: absent here, 8 there"),
        ({"averaging": {"target_batch_size": 64}}, "averaging.target_batch_size: 4096 here, 64 there"),
        ({"access": {"robust": "enforce"}}, "access.robust: absent here, enforce there"),
        ({"data": {"max_length": 128}}, "data.max_length: 512 here, 128 there"),
        ({"data": {"masked_fraction": 0.2}}, "data.masked_fraction: 0.15 here, 0.2 there"),
    ],
)
def test_a_difference_that_matters_is_named_with_both_values(changed, line):
    ours, theirs = fingerprint(run(), TOKENIZER), fingerprint(run(**changed), TOKENIZER)
    assert ours.digest != theirs.digest
    assert differences(ours, theirs) == [line]


def test_experts_are_agreed_on_but_not_how_long_a_trainer_waits_for_them():
    none, plain = fingerprint(run(), TOKENIZER), fingerprint(run(experts={}), TOKENIZER)
    assert "experts.grid: absent here, [8, 8] there" in differences(none, plain)
    assert differences(plain, fingerprint(run(experts={"width": 64}), TOKENIZER)) == [
        "experts.width: 256 here, 64 there"
    ]
    assert plain.digest == fingerprint(run(experts={"timeout": 9.0}), TOKENIZER).digest


def test_another_version_of_the_optimizer_is_named():
    ours, theirs = (fingerprint(run(), TOKENIZER, version) for version in (2, 1))
    assert ours.digest != theirs.digest
    assert differences(ours, theirs) == ["optimizer.version: 2 here, 1 there"]


def test_another_architecture_is_named():
    lines = differences(
        fingerprint(run(), TOKENIZER), fingerprint(run(model={"architecture": "modernbert"}), TOKENIZER)
    )
    assert lines == [
        "model.architecture: albert here, modernbert there",
        "model.embedding_size: 128 here, absent there",
        "model.sentence_order: true here, absent there",
    ]


def test_every_difference_is_named():
    theirs = run(model={"hidden_size": 512}, optimizer={"epsilon": 1e-8})
    lines = differences(fingerprint(run(), TOKENIZER), fingerprint(theirs, TOKENIZER))
    assert lines == ["model.hidden_size: 1024 here, 512 there", "optimizer.epsilon: 1e-06 here, 1e-08 there"]


def test_another_tokenizer_is_named():
    lines = differences(fingerprint(run(), TOKENIZER), fingerprint(run(), "0" * 16))
    assert lines == [f"tokenizer: {TOKENIZER} here, {'0' * 16} there"]


def test_a_key_that_only_one_side_knows_is_called_absent():
    ours = fingerprint(run(), TOKENIZER)
    older = type(ours)(tuple(pair for pair in ours.values if pair[0] != "model.seed"))
    assert differences(ours, older) == ["model.seed: 0 here, absent there"]


@pytest.mark.parametrize(
    "changed",
    [
        {"description": "another text"},
        {"tokenizer": {"path": "elsewhere"}},
        {"data": {"train": [{"hub": "some/corpus"}], "shuffle_buffer": 5}},
        {"coordinator": {"checkpoint_every": 7}},
        {"access": {"robust": "off"}},
    ],
)
def test_what_a_peer_may_choose_for_itself_does_not_count(changed):
    assert fingerprint(run(**changed), TOKENIZER).digest == fingerprint(run(), TOKENIZER).digest


def test_another_process_computes_the_same_digest():
    program = (
        "from pathlib import Path\n"
        "from swarm.run_file.fingerprint import fingerprint\n"
        "from swarm.run_file import parse_run\n"
        "content = {'name': 'tiny', 'data': {'train': [{'path': 'corpus.txt'}]}}\n"
        f"print(fingerprint(parse_run(content, Path('run.yaml')), {TOKENIZER!r}).digest)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)},
    )
    assert result.stdout.strip() == fingerprint(run(), TOKENIZER).digest
