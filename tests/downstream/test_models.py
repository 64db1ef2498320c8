"""What `--model` may name, and what is said about models that cannot be used."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import AlbertForMaskedLM, PreTrainedTokenizerFast

from downstream.errors import ModelError
from downstream.heads import new_head, open_reader
from downstream.models import check_head, check_pretrained, find_models, inspect_model
from downstream.tasks.classify import Classification
from downstream.tasks.ner import NamedEntities
from downstream.tasks.task import Task
from tests.downstream.conftest import MAX_LENGTH, write_pretrained

LABELS = ("O", "B-PER", "I-PER")


def change(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def use(folder: Path, task: Task) -> None:
    """All that happens to a model before it is trained."""
    (model,) = find_models(str(folder))
    check_pretrained(model)
    open_reader(model)
    new_head(model, task, LABELS, 1, from_scratch=False)


@pytest.mark.parametrize("from_scratch", [False, True])
def test_dropout_is_at_least_what_is_asked_for(copied: Path, from_scratch: bool):
    change(copied, hidden_dropout_prob=0.3)
    (model,) = find_models(str(copied))
    config = new_head(model, NamedEntities(), LABELS, 1, dropout=0.1, from_scratch=from_scratch).config
    dropouts = (config.hidden_dropout_prob, config.attention_probs_dropout_prob, config.classifier_dropout_prob)
    assert dropouts == (0.3, 0.1, 0.1)


def test_a_folder_of_checkpoints_stands_for_all_of_them_in_the_order_of_their_steps(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast
):
    for step in (1000, 200):
        write_pretrained(tmp_path / "state" / "checkpoints" / f"checkpoint-{step}", tokenizer, seed=step, step=step)
    for place in (tmp_path / "state", tmp_path / "state" / "checkpoints"):
        assert [model.step for model in find_models(str(place))] == [200, 1000]
        assert [model.step for model in find_models(str(place), newest_only=True)] == [1000]
    (one,) = find_models(str(tmp_path / "state" / "checkpoints" / "checkpoint-200"))
    assert (one.step, one.run, one.name, one.is_fine_tuned) == (200, "nodi", "checkpoint-200", False)


def test_a_model_of_no_run_has_no_step(pretrained: Path, copied: Path):
    assert inspect_model(pretrained, "a").step is None
    (copied / "trainer_state.json").write_text('{"global_step": 7}')  # as the Trainer of Transformers writes it
    assert inspect_model(copied, "a").step is None


def test_a_reader_cuts_at_what_the_model_reads(pretrained: Path):
    (model,) = find_models(str(pretrained))
    assert open_reader(model).max_length == MAX_LENGTH
    assert open_reader(model, 16).max_length == 16
    assert open_reader(model, 500).max_length == MAX_LENGTH


def test_the_same_seed_draws_the_same_head_and_another_one_another(pretrained: Path):
    (model,) = find_models(str(pretrained))
    weights = [
        new_head(model, NamedEntities(), LABELS, seed, from_scratch=False).state_dict()["classifier.weight"].tolist()
        for seed in (1, 1, 2)
    ]
    assert weights[0] == weights[1] != weights[2]


def test_a_new_head_keeps_the_pretrained_weights_and_from_scratch_does_not(pretrained: Path):
    (model,) = find_models(str(pretrained))
    name = "albert.embeddings.word_embeddings.weight"
    saved = load_file(pretrained / "model.safetensors")[name]
    kept, drawn = (
        new_head(model, NamedEntities(), LABELS, 1, from_scratch=scratch).state_dict()[name]
        for scratch in (False, True)
    )
    assert kept.equal(saved)
    assert not drawn.equal(saved)
    assert drawn.shape == saved.shape


def without_tokenizer(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


def without_fast_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "CanineTokenizer"}')
    (folder / "vocab.txt").write_text("a\n")  # Canine reads code points and has none


def without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("albert.embeddings.word_embeddings.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), r"has no weights, as model\.safetensors"),
        (lambda folder: (folder / "config.json").unlink(), r"is no model, it has no config\.json"),
        (lambda folder: (folder / "config.json").write_text("{"), r"config\.json: .*download it again"),
        (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json: .*download it again"),
        (without_tokenizer, r"has no tokenizer; put the tokenizer\.json"),  # Transformers would make an empty one
        (without_fast_tokenizer, r"not a fast tokenizer; its folder must hold a tokenizer\.json"),
        (lambda folder: change(folder, vocab_size=8), "tokens but the model knows 8; put the tokenizer there"),
        (lambda folder: os.truncate(folder / "model.safetensors", 1000), "cannot be used"),
        # here Transformers would draw random weights
        (lambda folder: change(folder, hidden_size=64), "do not belong together|cannot be used"),
        (without_a_tensor, r"1 tensors are missing .* albert\.embeddings\.word_embeddings\.weight"),
        (lambda folder: change(folder, model_type="vit"), "cannot be used"),  # it sees images
    ],
)
def test_what_a_model_lacks_is_named(copied: Path, break_it: Callable[[Path], object], told: str):
    break_it(copied)
    with pytest.raises(ModelError, match=told):
        use(copied, NamedEntities())


def test_a_model_of_masked_tokens_alone_gets_a_pooler_with_its_head(copied: Path):
    AlbertForMaskedLM.from_pretrained(copied).save_pretrained(copied)
    assert not any("pooler" in name for name in load_file(copied / "model.safetensors"))
    use(copied, Classification())


def test_an_architecture_with_code_of_its_own_is_refused_without_a_question(
    copied: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", asked.append)
    change(copied, model_type="theirs", auto_map={"AutoConfig": "code.Config"})
    (copied / "code.py").write_text("raise SystemExit")
    with pytest.raises(ModelError, match="cannot be used"):
        use(copied, NamedEntities())
    assert not asked


@pytest.mark.parametrize("head", ["ForTokenClassification", "ForSequenceClassification", "ForQuestionAnswering"])
def test_what_is_fine_tuned_already_is_not_fine_tuned_again(copied: Path, head: str):
    change(copied, architectures=[f"Albert{head}"])
    with pytest.raises(ModelError, match=f"the wrong head \\({head}\\).*give the pretrained model"):
        use(copied, NamedEntities())


def test_a_head_for_another_task_is_named(copied: Path):
    change(copied, architectures=["AlbertForTokenClassification"])
    model = inspect_model(copied, "a")
    check_head(model, NamedEntities())
    with pytest.raises(ModelError, match="the task classify needs ForSequenceClassification"):
        check_head(model, Classification())


def test_an_older_checkpoint_that_is_damaged_does_not_matter_to_the_newest(tmp_path: Path, pretrained: Path):
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-2").symlink_to(pretrained)
    assert [model.name for model in find_models(str(tmp_path), newest_only=True)] == [f"{tmp_path.name}/checkpoint-2"]


def test_a_folder_of_somebody_who_has_no_home_is_named():
    with pytest.raises(ModelError, match=r"~nobody-at-all/model: cannot be read .*correct the path"):
        find_models("~nobody-at-all/model")


def test_a_name_that_is_neither_folder_nor_repository_is_named():
    with pytest.raises(ModelError, match="no such folder, and no name on the Hub"):
        find_models("./no/such/folder")
