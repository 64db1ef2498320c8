"""A run that begins with a trained model: what it takes over, and what is refused."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AlbertConfig, AlbertModel, BertConfig, PreTrainedTokenizerFast

from averaging.log.disk import LOG_FILE
from averaging.log.entry_file import EntryFile, Record
from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.checkpoints.store import LoadedCheckpoint
from coordinator.initialization.initialize import is_new
from coordinator.initialization.shared_tokens import shared_tokens
from coordinator.initialization.warm_start import warm_start
from coordinator.public_run import without_secrets
from coordinator.state_folder import LOG
from swarm.errors import DataError, RunFileError
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import differences, fingerprint
from tests.averaging.log.headers import chain_of
from tests.coordinator.initialization.conftest import LENGTH, MODERNBERT, MakeRun
from tests.support.hub.reader import read_from_hub
from tests.support.hub.repositories import File
from tests.support.hub.stand_in import HubStandIn
from trainer.model import PretrainingModel, build_model, vocabulary_of

POSITIONS = "albert.embeddings.position_embeddings.weight"
EMBEDDINGS, BIAS = BY_VOCABULARY = ("albert.embeddings.word_embeddings.weight", "predictions.bias")


def started(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> tuple[dict[str, torch.Tensor], str]:
    """The parameters with which the run begins, and what is said."""
    said: list[str] = []
    model = build_model(run, tokenizer)
    warm_start(model, run, tokenizer, said.append)
    (line,) = said
    return {name: one.detach() for name, one in model.named_parameters()}, line


def test_with_the_same_tokenizer_the_run_begins_where_the_other_ended(
    make_run: MakeRun, old: Path, old_model: PretrainingModel, old_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
):
    (tmp_path / "text.txt").unlink()  # nothing has to be compared
    parameters, said = started(make_run(str(old)), old_tokenizer)
    for name, theirs in old_model.named_parameters():
        expected = theirs[:LENGTH] if name == POSITIONS else theirs
        assert torch.equal(parameters[name], expected), name
    count = len(old_tokenizer)
    assert said == f"The run begins with {old}: {count} of {count} tokens are its tokens too."


def test_with_another_tokenizer_shared_tokens_keep_their_vectors_and_the_others_get_means(
    make_run: MakeRun,
    old: Path,
    old_model: PretrainingModel,
    old_tokenizer: PreTrainedTokenizerFast,
    tokenizer: PreTrainedTokenizerFast,
):
    parameters, said = started(make_run(str(old)), tokenizer)
    shared = shared_tokens(old_tokenizer, tokenizer)
    assert 0.2 * len(tokenizer) < len(shared) < len(tokenizer)
    assert f": {len(shared)} of {len(tokenizer)} tokens are its tokens too; the others begin as means" in said
    theirs = {name: one.detach() for name, one in old_model.named_parameters()}
    for name in BY_VOCABULARY:
        assert torch.equal(parameters[name][list(shared)], theirs[name][list(shared.values())])
        shared_rows = theirs[name][list(shared.values())]
        assert (parameters[name] <= shared_rows.amax(0) + 1e-6).all()
        assert (parameters[name] >= shared_rows.amin(0) - 1e-6).all()
    for name in theirs.keys() - {*BY_VOCABULARY, POSITIONS}:
        assert torch.equal(parameters[name], theirs[name]), name
    again, _ = started(make_run(str(old)), tokenizer)
    assert all(torch.equal(one, again[name]) for name, one in parameters.items())


def test_another_script_begins_with_mean_and_covariance(
    make_run: MakeRun,
    old: Path,
    old_model: PretrainingModel,
    old_tokenizer: PreTrainedTokenizerFast,
    tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("coordinator.initialization.warm_start.ENOUGH_SHARED", 1.0)
    parameters, said = started(make_run(str(old)), tokenizer)
    assert "too few to compare the others with" in said
    shared = shared_tokens(old_tokenizer, tokenizer)
    theirs = vocabulary_of(old_model)[0].detach()
    ours = parameters[EMBEDDINGS]
    assert torch.equal(ours[list(shared)], theirs[list(shared.values())])
    assert ours.mean(0) == pytest.approx(theirs.mean(0), abs=0.05)
    assert ours.std() == pytest.approx(float(theirs.std()), rel=0.2)
    of, rare = (tokenizer.convert_tokens_to_ids(token) for token in ("▁of", "~"))
    assert parameters[BIAS][of] > parameters[BIAS].mean() + 1 > parameters[BIAS][rare] + 1


def test_a_model_without_heads_gives_its_body(
    make_run: MakeRun, old_tokenizer: PreTrainedTokenizerFast, tmp_path: Path
):
    config = AlbertConfig(
        vocab_size=len(old_tokenizer),
        hidden_size=32,
        embedding_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
    )
    body = AlbertModel(config)
    body.save_pretrained(tmp_path / "body")
    old_tokenizer.save_pretrained(tmp_path / "body")
    run = make_run("body")
    parameters, _ = started(run, old_tokenizer)
    for name, theirs in body.named_parameters():
        assert torch.equal(parameters[f"albert.{name}"], theirs), name
    fresh = dict(build_model(run, old_tokenizer).named_parameters())
    for name in fresh.keys() - {f"albert.{name}" for name, _ in body.named_parameters()}:
        assert torch.equal(parameters[name], fresh[name]), name


def test_a_modernbert_begins_with_a_modernbert_alone(
    make_run: MakeRun,
    old: Path,
    old_tokenizer: PreTrainedTokenizerFast,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
):
    other = build_model(make_run(None, max_length=2 * LENGTH, seed=1, **MODERNBERT), old_tokenizer)
    other.save_pretrained(tmp_path / "modern")
    old_tokenizer.save_pretrained(tmp_path / "modern")
    theirs = {name: one.detach() for name, one in other.named_parameters()}
    same, _ = started(make_run("modern", **MODERNBERT), old_tokenizer)
    assert all(torch.equal(same[name], one) for name, one in theirs.items())
    parameters, said = started(make_run("modern", **MODERNBERT), tokenizer)
    assert "the others begin as means" in said
    shared = shared_tokens(old_tokenizer, tokenizer)
    rows = {"model.embeddings.tok_embeddings.weight", "decoder.bias"}
    for name, one in theirs.items():
        ours, expected = (
            (parameters[name], one)
            if name not in rows
            else (parameters[name][list(shared)], one[list(shared.values())])
        )
        assert torch.equal(ours, expected), name
    assert "modern is a model of the kind modernbert; name an ALBERT" in refusal(make_run("modern"), tokenizer)
    albert = make_run(str(old), **MODERNBERT)
    assert "is a model of the kind albert; name a ModernBERT, as answerdotai/ModernBERT-base" in refusal(
        albert, tokenizer
    )
    config = json.loads((tmp_path / "modern" / "config.json").read_text())
    (tmp_path / "modern" / "config.json").write_text(json.dumps(config | {"local_attention": 64}))
    assert "has local_attention 64, and a run's model has 128" in refusal(make_run("modern", **MODERNBERT), tokenizer)


@pytest.mark.parametrize(
    ("field", "ours"),
    [
        ("hidden_size", 64),
        ("num_hidden_layers", 3),
        ("num_attention_heads", 4),
        ("intermediate_size", 32),
        ("embedding_size", 32),
    ],
)
def test_another_shape_is_refused(
    make_run: MakeRun, old: Path, tokenizer: PreTrainedTokenizerFast, field: str, ours: int
):
    theirs = make_run(None).model.model_dump()[field]
    assert refusal(make_run(str(old), **{field: ours}), tokenizer) == (
        f"model.{field} is {ours}, but {old} (model.start_from) has {theirs}; set it to {theirs} or name another model"
    )


def test_too_few_positions_are_refused(make_run: MakeRun, old: Path, tokenizer: PreTrainedTokenizerFast):
    assert refusal(make_run(str(old), max_length=2 * LENGTH + 1), tokenizer) == (
        f"data.max_length is 65, but {old} (model.start_from) has 64 positions; "
        "set it to 64 at most or name another model"
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"num_hidden_groups": 2}, "has num_hidden_groups 2, and a run's model has 1; name another model"),
        ({"hidden_act": "relu"}, "was trained with relu, and a run's model computes gelu"),
        ({"vocab_size": 100}, "cannot be loaded"),
    ],
)
def test_a_model_of_another_kind_is_refused(
    make_run: MakeRun,
    old: Path,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    changed: dict[str, Any],
    words: str,
):
    folder = Path(shutil.copytree(old, tmp_path / "changed"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changed))
    assert words in refusal(make_run("changed"), tokenizer)


def test_what_is_no_albert_is_refused(make_run: MakeRun, tokenizer: PreTrainedTokenizerFast, tmp_path: Path):
    BertConfig().save_pretrained(tmp_path / "bert")
    assert "bert is a model of the kind bert; name an ALBERT" in refusal(make_run("bert"), tokenizer)


def test_broken_and_missing_models_are_refused(
    make_run: MakeRun, old: Path, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
):
    assert f"{tmp_path / 'nothing'}: no such folder; name a model's folder" in refusal(make_run("nothing"), tokenizer)
    folder = Path(shutil.copytree(old, tmp_path / "broken"))
    (folder / "model.safetensors").write_bytes(b"short")
    assert "broken cannot be loaded" in refusal(make_run("broken"), tokenizer)
    (folder / "model.safetensors").unlink()
    assert "broken cannot be loaded" in refusal(make_run("broken"), tokenizer)
    (folder / "config.json").unlink()
    assert "broken cannot be loaded" in refusal(make_run("broken"), tokenizer)


def refusal(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> str:
    with pytest.raises(RunFileError) as caught:
        warm_start(build_model(run, tokenizer), run, tokenizer, lambda line: None)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_text_that_cannot_be_read_is_an_error_of_the_text(
    make_run: MakeRun, old: Path, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
):
    run = make_run(str(old))
    (tmp_path / "text.txt").unlink()
    with pytest.raises(DataError, match=r"text\.txt"):
        warm_start(build_model(run, tokenizer), run, tokenizer, lambda line: None)


def test_a_model_comes_from_the_hub(hub_stand_in: HubStandIn, old: Path, make_run: MakeRun, tmp_path: Path):
    repository = hub_stand_in.repositories.create("asha/albert-nodi")
    repository.commit(
        "Add a model",
        "",
        {path.name: File(path.read_bytes(), large=False) for path in old.iterdir()},
    )
    content = make_run("asha/albert-nodi").model_dump(mode="json")
    program = (
        "from pathlib import Path; from swarm.run_file import parse_run; "
        "from coordinator.initialization.donor import open_donor; "
        f"run = parse_run({content!r}, Path({str(tmp_path / 'run.yaml')!r})); "
        "print(open_donor(run, run.model.start_from).tensors['predictions.bias'].tolist())"
    )
    found = json.loads(read_from_hub(program, tmp_path / "home").splitlines()[-1])
    from safetensors.torch import load_file

    assert found == load_file(old / "model.safetensors")["predictions.bias"].tolist()


def test_a_run_begins_once(make_run: MakeRun, tmp_path: Path):
    run, checkpoint = make_run("old"), LoadedCheckpoint({}, {}, TrainerState("new-run", 5, 100, None, "", "", ""))
    assert is_new(run, tmp_path, None)
    assert not is_new(run, tmp_path, checkpoint)
    (tmp_path / LOG).mkdir()
    EntryFile(tmp_path / LOG / LOG_FILE).append([Record(one, is_applied=True) for one in chain_of(1)])
    assert not is_new(run, tmp_path, None)
    groups = run.model_copy(update={"averaging": run.averaging.model_copy(update={"target_group_size": 4})})
    assert is_new(groups, tmp_path, None), "their log is for credit alone"


def test_the_fingerprint_has_the_name_wherever_the_folder_is(make_run: MakeRun):
    runs = [make_run(one) for one in (None, "/home/asha/old/checkpoint-100", "../old/checkpoint-100", "albert/base")]
    fresh, here, there, other = (fingerprint(without_secrets(run), "digest") for run in runs)
    assert here.digest == there.digest
    assert [fingerprint(run, "digest").digest for run in runs] == [one.digest for one in (fresh, here, there, other)]
    for one, another in itertools.combinations((fresh, here, other), 2):
        assert one.digest != another.digest
    assert differences(fresh, here) == ["model.start_from: absent here, checkpoint-100 there"]


def test_a_folder_is_not_published(make_run: MakeRun):
    assert without_secrets(make_run("/home/asha/old/checkpoint-100")).model.start_from == "checkpoint-100"
    assert without_secrets(make_run("albert/albert-base-v2")).model.start_from == "albert/albert-base-v2"
