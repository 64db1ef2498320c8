"""The run file: what it accepts, and the one line that each kind of mistake ends in."""

from pathlib import Path

import pytest

from swarm.errors import RunFileError
from swarm.run_file import dump_run, load_run, parse_run

SMALLEST = "name: tiny\ndata: {train: [{path: corpus.txt}]}\n"


@pytest.fixture
def run_yaml(tmp_path: Path):
    """Write a run file and give its path."""

    def write(text: str) -> Path:
        path = tmp_path / "run.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def complaint(path: Path) -> str:
    """What is said about a run file, without its name; it must be one line."""
    with pytest.raises(RunFileError) as caught:
        load_run(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_a_name_and_a_source_of_text_are_enough(run_yaml):
    run = load_run(run_yaml(SMALLEST))
    assert run.name == "tiny"
    assert run.averaging.target_batch_size == 4096
    assert run.optimizer.betas == (0.9, 0.999)


def test_relative_paths_start_at_the_run_file(run_yaml):
    path = run_yaml(SMALLEST)
    assert load_run(path).resolve("corpus.txt") == path.parent.resolve() / "corpus.txt"
    assert load_run(path).resolve("/elsewhere/corpus.txt") == Path("/elsewhere/corpus.txt")


def test_a_run_written_out_and_read_again_is_the_same(run_yaml):
    run = load_run(run_yaml(SMALLEST + "optimizer: {betas: [0.8, 0.95], epsilon: 1e-8}\nlanguage: bn\n"))
    again = load_run(run_yaml(dump_run(run)))
    assert again == run
    assert dump_run(again) == dump_run(run)


def test_a_key_that_the_architecture_has_not_is_not_written_out(run_yaml):
    run = load_run(run_yaml(SMALLEST + "model: {architecture: modernbert}"))
    assert not {"embedding_size", "sentence_order"} & run.model.model_dump().keys()
    assert load_run(run_yaml(dump_run(run))).model == run.model
    assert "embedding_size: 128" in dump_run(load_run(run_yaml(SMALLEST)))


def test_peers_average_in_one_group_unless_the_run_file_says_of_how_many(run_yaml):
    assert load_run(run_yaml(SMALLEST)).averaging.target_group_size is None
    run = load_run(run_yaml(SMALLEST + "averaging: {target_group_size: 16, rounds_per_step: 3}"))
    assert (run.averaging.target_group_size, run.averaging.rounds_per_step) == (16, 3)
    assert load_run(run_yaml(dump_run(run))) == run


def test_a_run_has_experts_only_if_its_file_asks_for_them(run_yaml):
    assert load_run(run_yaml(SMALLEST)).experts is None
    run = load_run(run_yaml(SMALLEST + "experts: {}"))
    assert run.experts is not None
    assert run.experts.grid == [8, 8]
    assert load_run(run_yaml(dump_run(run))) == run


def test_a_run_written_out_names_its_defaults(run_yaml):
    assert "target_batch_size: 4096" in dump_run(load_run(run_yaml(SMALLEST)))


@pytest.mark.parametrize("written", ["1e-3", "1E-3", "1.0e-3", "0.001", "1e-03"])
def test_a_small_number_may_be_written_in_any_usual_way(run_yaml, written):
    run = load_run(run_yaml(SMALLEST + f"optimizer: {{learning_rate: {written}}}"))
    assert run.optimizer.learning_rate == 0.001


def test_yaml_anchors_and_merges_work(run_yaml):
    text = "name: tiny\ndata:\n  train: [&wiki {path: a, weight: 2}]\n  validation: [{<<: *wiki, path: b}]\n"
    assert load_run(run_yaml(text)).data.validation[0].weight == 2.0


MISTAKES = [
    # the whole file
    ("", "a run file is a mapping of keys to values, got nothing"),
    ("- name\n", "a run file is a mapping of keys to values, got ['name']"),
    ("name: [tiny\ndata: x", "not valid YAML (line 2: expected ',' or ']', but got ':')"),
    ("name: tiny\n\tdata: x", "not valid YAML (line 2: found character '\\t' that cannot start any token)"),
    ("name: tiny\nname: huge\n", "not valid YAML (line 2: the key name is given twice)"),
    (
        "data:\n  train: []\n  max_length: 1\n  max_length: 2\n",
        "not valid YAML (line 4: the key max_length is given twice)",
    ),
    (
        "!!python/object:os.system {}",
        "not valid YAML (line 1: could not determine a constructor for the tag "
        "'tag:yaml.org,2002:python/object:os.system')",
    ),
    ("name: \x00", "not valid YAML (unacceptable character #x0000: special characters are not allowed"),
    # keys
    (
        SMALLEST + "optimiser: {}",
        "unknown key optimiser; did you mean optimizer? "
        "allowed here: name, description, language, model, tokenizer, data, optimizer, averaging, ",
    ),
    (
        SMALLEST + "optimizer: {learning_rte: 0.1}",
        "unknown key optimizer.learning_rte; did you mean learning_rate? allowed here: name, "
        "learning_rate, warmup_steps, total_steps, betas, epsilon, weight_decay, max_gradient_norm, momentum",
    ),
    (
        "name: tiny\ndata: {train: [{path: a}, {file: b}]}",
        "unknown key data.train.1.file; allowed here: hub, config, split, path, text_column, weight",
    ),
    (SMALLEST + "2024: x", "unknown key 2024; allowed here: name, "),
    ("name: tiny", "data is missing (the text of the run)"),
    # types
    ("name: 2024\ndata: {train: [{path: a}]}", "name must be text; put it in quotes, got 2024"),
    (SMALLEST + "tokenizer: {path: }", "tokenizer.path must be text, got nothing"),
    (SMALLEST + "averaging: {overlap: 1}", "averaging.overlap must be true or false, got 1"),
    (
        SMALLEST + "averaging: {target_batch_size: '256'}",
        "averaging.target_batch_size must be a whole number, got '256'",
    ),
    (
        SMALLEST + "optimizer: {learning_rate: fast}",
        "optimizer.learning_rate must be a number, got 'fast'",
    ),
    (SMALLEST + "optimizer:\n", "optimizer must be a section with keys of its own, got nothing"),
    ("name: tiny\ndata: {train: a.txt}", "data.train must be a list, got 'a.txt'"),
    (SMALLEST + "optimizer: {betas: 0.9}", "optimizer.betas must be a list, got 0.9"),
    (
        SMALLEST + "optimizer: {betas: [0.9, 0.99, 0.999]}",
        "optimizer.betas must have at most 2 entries, got [0.9, 0.99, 0.999]",
    ),
    # values
    (
        SMALLEST + "averaging: {target_batch_size: 0}",
        "averaging.target_batch_size must be above 0, got 0",
    ),
    (SMALLEST + "model: {hidden_dropout_prob: 1.5}", "model.hidden_dropout_prob must be at most 1, got 1.5"),
    (SMALLEST + "model: {architecture: bert}", "model.architecture must be 'albert' or 'modernbert', got 'bert'"),
    (
        SMALLEST + "model: {architecture: modernbert, embedding_size: 64}",
        "model: embedding_size is a key of ALBERT, got 64 with architecture modernbert, whose embeddings are "
        "hidden_size wide; leave it out",
    ),
    (
        SMALLEST + "model: {architecture: modernbert, sentence_order: false}",
        "model: sentence_order is a key of ALBERT, got false with architecture modernbert, which learns masked tokens "
        "alone; leave it out",
    ),
    (
        SMALLEST + "model: {architecture: modernbert, hidden_size: 60, num_attention_heads: 4}",
        "model: hidden_size / num_attention_heads must be even, as ModernBERT turns pairs of numbers by their "
        "position, got 15; choose another number of heads",
    ),
    ("name: tiny\ndata: {train: [{path: a}], max_length: 8}", "data.max_length must be at least 16, got 8"),
    (SMALLEST + "optimizer: {betas: [0.9, 9.0]}", "optimizer.betas.1 must be below 1, got 9.0"),
    (
        SMALLEST + "optimizer: {learning_rate: .inf}",
        "optimizer.learning_rate must be a finite number, got inf",
    ),
    (
        SMALLEST + "averaging: {compression: 4bit}",
        "averaging.compression must be '8bit', 'float16' or 'none', got '4bit'",
    ),
    ("name: tiny\ndata: {train: []}", "data.train must have at least 1 entry, got []"),
    (
        "name: A Run\ndata: {train: [{path: a}]}",
        "name must be the run's name in lower case letters, digits and dashes (63 at most), got 'A Run'",
    ),
    (
        "name: tiny\ndata: {train: [{path: a, hub: b}]}",
        "data.train.0: a data source must have exactly one of hub and path, got both",
    ),
    (
        "name: tiny\ndata: {train: [{weight: 2.0}]}",
        "data.train.0: a data source must have exactly one of hub and path, got neither",
    ),
    (
        SMALLEST + "coordinator: {probes: [To the sea.]}",
        "coordinator.probes: each sentence must have [MASK] in it exactly once, got 'To the sea.'",
    ),
    (
        SMALLEST + "coordinator: {probes: ['[MASK] the [MASK]']}",
        "coordinator.probes: each sentence must have [MASK] in it exactly once, got '[MASK] the [MASK]'",
    ),
    (
        SMALLEST + 'coordinator: {probes: ["To\\nthe [MASK]"]}',
        "coordinator.probes: each sentence must be one line of 200 letters at most, got 'To\\nthe [MASK]'",
    ),
    (
        SMALLEST + "coordinator: {probes: [" + "'[MASK]', " * 11 + "]}",
        "coordinator.probes must have at most 10 entries, got ",
    ),
    (
        SMALLEST + "release: {repo: bengali}",
        "release.repo must be a repository on the Hub, as owner/name (made if there is none), got 'bengali'",
    ),
    # values that do not go together
    (
        SMALLEST + "model: {hidden_size: 250, num_attention_heads: 4}",
        "model: hidden_size must be a multiple of num_attention_heads, got 250 and 4",
    ),
    (
        SMALLEST + "optimizer: {warmup_steps: 10, total_steps: 10}",
        "optimizer: warmup_steps must be below total_steps, got 10 and 10",
    ),
    (
        SMALLEST + "averaging: {target_group_size: 12}",
        "averaging: target_group_size must be a power of two, got 12",
    ),
    (
        SMALLEST + "averaging: {rounds_per_step: 2}",
        "averaging: rounds_per_step needs target_group_size, got 2 without it",
    ),
    (
        SMALLEST + "access: {robust: enforce}\naveraging: {target_group_size: 4}",
        "access.robust: enforce works without averaging.target_group_size only",
    ),
    # experts
    (
        SMALLEST + "experts: {grid: [128, 64]}",
        "experts: grid must have room for at most 4096 experts, got [128, 64] for 8192",
    ),
    (
        SMALLEST + "experts: {grid: [2], experts_of_a_row: 3}",
        "experts: experts_of_a_row must be at most the number of experts in the grid, got 3 and [2] for 2",
    ),
    (
        SMALLEST + "averaging: {target_group_size: 4}\nexperts: {}",
        "experts: not in small groups; remove experts or averaging.target_group_size (4)",
    ),
]


@pytest.mark.parametrize(("text", "expected"), MISTAKES, ids=[expected[:60] for _, expected in MISTAKES])
def test_a_mistake_ends_in_one_line_with_key_value_and_what_is_allowed(run_yaml, text, expected):
    assert complaint(run_yaml(text)).startswith(expected)


def test_several_mistakes_are_counted(run_yaml):
    text = SMALLEST + "model: {hidden_size: 0, embedding_size: -1}"
    assert complaint(run_yaml(text)) == "model.hidden_size must be above 0, got 0 (and 1 more mistake)"


def test_a_misspelled_key_is_named_before_the_key_that_it_makes_missing(run_yaml):
    message = complaint(run_yaml("name: tiny\ndata: {trian: [{path: a}]}"))
    assert message.startswith("unknown key data.trian; did you mean train? ")


def test_a_long_value_is_cut(run_yaml):
    message = complaint(run_yaml(SMALLEST + f"model: {'x' * 5000}"))
    assert message.endswith("xxx…")
    assert len(message) < 150


def test_a_missing_file_is_called_missing(tmp_path):
    assert complaint(tmp_path / "absent.yaml") == "no such run file; `sahaj new` writes one"


def test_a_folder_is_no_run_file(tmp_path):
    assert complaint(tmp_path).startswith("cannot be read as a run file (")


def test_a_binary_file_is_no_run_file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_bytes(bytes(range(256)))
    assert complaint(path).startswith("cannot be read as a run file (")


def test_a_run_that_came_over_the_network_is_checked_the_same_way():
    with pytest.raises(RunFileError, match=r"^served\.yaml: data is missing "):
        parse_run({"name": "tiny"}, Path("served.yaml"))
