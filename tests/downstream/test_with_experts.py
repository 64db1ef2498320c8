"""Models that are taught a task together with the experts of their run."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import AlbertConfig, AlbertForPreTraining, AlbertModel, PreTrainedTokenizerFast, pipeline

from downstream.data.loading import DataOptions, load_data
from downstream.errors import ModelError
from downstream.evaluate import evaluate
from downstream.finetune import finetune
from downstream.heads import new_head, open_reader
from downstream.models import Model, inspect_model
from downstream.report.results import AS_IT_IS, FINE_TUNED, WITH_EXPERTS, ModelResult
from downstream.tasks import TASKS
from downstream.training import predict
from downstream.usage import load
from downstream.with_experts import add_experts, count_parameters, term_of
from experts.file_names import EXPERTS, MIXTURE
from experts.grid import all_uids
from experts.host.files import StateFiles
from experts.host.release import pack
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from experts.layer import released_term
from experts.layer.expert_term import NAME, ExpertTerm
from experts.released import steps_of
from swarm.run_file import ExpertsSection
from tests.downstream.conftest import MAX_LENGTH, QUICK
from trainer.data.batch import Batch
from trainer.models.albert import AlbertPretraining, read_states

pytestmark = pytest.mark.xdist_group("finetune")  # a model for most of them

SECTION = ExpertsSection(grid=[2, 2], width=8, hidden=16, experts_of_a_row=2)


def write_experts_of_a_run(folder: Path, section: ExpertsSection, trunk_width: int = 32) -> Path:
    """The two files of a checkpoint; two of the experts had hosts."""
    folder.mkdir(exist_ok=True)
    torch.manual_seed(3)
    term = ExpertTerm(section, trunk_width)
    torch.nn.init.normal_(term.mixture.up.weight)
    tensors = {f"{NAME}.{name}": tensor for name, tensor in term.state_dict().items()}
    (folder / MIXTURE).write_bytes(released_term.to_bytes(tensors, section))
    settings = ExpertSettings(tuple(section.grid), section.width, section.hidden)
    states = StateFiles(folder.parent / "states", settings)
    for uid in list(all_uids(settings.grid))[::2]:
        states.write(uid, 1, to_bytes(TrainedExpert(uid, settings, 1)))
    assert pack(states, settings, folder / EXPERTS) == 2
    return folder


@pytest.fixture(scope="session")
def with_experts(pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A checkpoint of a run with experts. Tests must not change its folder."""
    folder = Path(shutil.copytree(pretrained, tmp_path_factory.mktemp("models") / "albert-experts"))
    write_experts_of_a_run(folder, SECTION, AlbertConfig.from_pretrained(folder).hidden_size)
    return inspect_model(folder, "albert-experts")


def test_the_term_is_added_to_what_heads_read_as_in_pretraining(
    with_experts: Model, tokenizer: PreTrainedTokenizerFast
):
    net = AlbertForPreTraining.from_pretrained(with_experts.folder).eval()
    add_experts(net, with_experts)
    term = term_of(net)
    assert term is not None
    own = AlbertPretraining(net.config, SECTION).eval()
    own.load_state_dict(net.state_dict())
    assert own.expert_term is not None
    own.expert_term.mixture.caller = term.mixture.caller
    torch.manual_seed(0)
    ids = torch.randint(5, len(tokenizer), (3, 10))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    places = torch.tensor([0, 4, 13, 29])  # of the flattened 3 x 10, none of them in the padding
    batch = Batch(ids, torch.zeros_like(ids), mask, torch.zeros(3, dtype=torch.int64), places, ids.flatten()[places])
    with torch.no_grad():
        read, _ = read_states(own, batch, first_tokens=False)
        body = net.albert
        assert isinstance(body, AlbertModel)
        states = body(ids, attention_mask=mask).last_hidden_state.flatten(0, 1)[places]
        without = AlbertModel.from_pretrained(with_experts.folder).eval()(ids, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(states, read)
    assert not torch.allclose(states, without.flatten(0, 1)[places], atol=0.01)


def test_padding_does_not_go_to_experts(with_experts: Model):
    net = new_head(with_experts, TASKS["ner"](), ["O", "B-PER"], seed=1, with_experts=True).eval()
    term = term_of(net)
    assert term is not None
    rows: list[int] = []
    term.mixture.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    ids = torch.randint(5, 50, (2, 10), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(10) < torch.tensor([[6], [10]])).long()
    with torch.no_grad():
        net(ids, attention_mask=mask)
        net(ids)
    assert rows == [16, 20]


@pytest.fixture(scope="session")
def tuned(
    with_experts: Model, entities: DataOptions, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ModelResult, Path, str]:
    """A model that was fine-tuned with its experts, its folder, and what was said."""
    out, console = tmp_path_factory.mktemp("tuned") / "model", Console(record=True, width=200)
    results = finetune(
        TASKS["ner"](), str(with_experts.folder), entities, QUICK, out=out, with_experts=True, console=console
    )
    (model,) = results.models
    return model, out, console.export_text()


def test_it_is_fine_tuned_saved_and_measured_with_its_experts(
    tuned: tuple[ModelResult, Path, str], entities: DataOptions
):
    model, out, said = tuned
    assert model.how == WITH_EXPERTS
    assert model.test("f1").mean > 0.9
    assert f"load({str(out)!r})" in said
    test = replace(entities, train=None, validation=None)
    (again,) = evaluate(None, [str(out)], test, QUICK, console=Console(quiet=True)).models
    assert again.how == AS_IT_IS
    assert again.test("f1").mean == pytest.approx(model.test("f1").mean)
    assert again.parameters == model.parameters
    net, task, reader = load(out), TASKS["ner"](), open_reader(inspect_model(out, "saved"))
    assert count_parameters(net) == model.parameters > net.num_parameters()
    encoded = task.encode(load_data(task, entities, training=False).test.examples, reader.tokenizer, reader.max_length)
    assert task.score(encoded.truth, predict(net, task, reader, encoded)) == pytest.approx(model.runs[0].test)


def test_the_way_to_experts_learns_the_task_and_they_do_not(tuned: tuple[ModelResult, Path, str], with_experts: Model):
    _, out, _ = tuned
    before, after = (load_file(folder / MIXTURE) for folder in (with_experts.folder, out))
    assert before.keys() == after.keys()
    assert not any(torch.equal(before[name], after[name]) for name in before if name.endswith("weight"))
    before, after = (load_file(folder / EXPERTS) for folder in (with_experts.folder, out))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert steps_of(out / EXPERTS) == steps_of(with_experts.folder / EXPERTS)


def test_what_was_saved_is_an_ordinary_model_for_a_pipeline(tuned: tuple[ModelResult, Path, str]):
    _, out, _ = tuned
    assert json.loads((out / "config.json").read_text())["architectures"] == ["AlbertForTokenClassification"]
    plain = pipeline("token-classification", str(out), stride=MAX_LENGTH // 4)
    assert not hasattr(plain.model, NAME)
    assert len(plain("ঢাকা থেকে যান ।")) > 0


def test_a_comparison_shows_a_model_with_its_experts_and_without(
    with_experts: Model, pretrained: Path, opinions: DataOptions
):
    said = io.StringIO()
    results = evaluate(
        "classify",
        [str(pretrained), str(with_experts.folder)],
        opinions,
        replace(QUICK, epochs=1),
        with_experts=True,
        console=Console(file=said, width=120),
    )
    assert [(one.name, one.how) for one in results.models] == [
        ("albert-nodi", FINE_TUNED),
        ("albert-experts", FINE_TUNED),
        ("albert-experts", WITH_EXPERTS),
    ]
    without, with_them = (one.parameters for one in results.models[1:])
    assert with_them > without
    assert WITH_EXPERTS in said.getvalue()


def test_a_model_without_experts_is_refused(pretrained: Path, entities: DataOptions, tmp_path: Path):
    with pytest.raises(ModelError, match=r"albert-nodi: .* has no experts .*leave --with-experts out"):
        finetune(TASKS["ner"](), str(pretrained), entities, QUICK, out=tmp_path / "model", with_experts=True)
    with pytest.raises(ModelError, match="has no experts"):
        evaluate("ner", [str(pretrained)], entities, QUICK, with_experts=True)
    assert not (tmp_path / "model").exists()


def test_a_fine_tuned_model_needs_no_flag_and_lacks_no_file(
    tuned: tuple[ModelResult, Path, str], pretrained: Path, entities: DataOptions, tmp_path: Path
):
    _, out, _ = tuned
    with pytest.raises(ModelError, match=r"fine-tuned already, .*leave --with-experts out"):
        evaluate(None, [str(out)], entities, QUICK, with_experts=True)
    with pytest.raises(ModelError, match=r"albert-nodi: .* has no experts"):
        evaluate("ner", [str(out), str(pretrained)], entities, QUICK, with_experts=True)
    broken = Path(shutil.copytree(out, tmp_path / "broken"))
    (broken / EXPERTS).unlink()
    with pytest.raises(ModelError, match=f"{MIXTURE} without the other file of its experts"):
        load(broken)
    with pytest.raises(ModelError, match=r"was not fine-tuned; do that with `sahaj finetune`"):
        load(pretrained)


@pytest.mark.parametrize("name", [MIXTURE, EXPERTS])
@pytest.mark.parametrize("how", ["cut", "without a header", "of another run"])
def test_broken_experts_are_named(with_experts: Model, entities: DataOptions, tmp_path: Path, name: str, how: str):
    folder = Path(shutil.copytree(with_experts.folder, tmp_path / "broken"))
    if how == "cut":
        (folder / name).write_bytes((folder / name).read_bytes()[:-10])
    elif how == "without a header":
        (folder / name).write_bytes((folder / "model.safetensors").read_bytes())
    else:
        other = write_experts_of_a_run(tmp_path / "other", ExpertsSection(grid=[4], width=8, hidden=16))
        shutil.copyfile(other / name, folder / name)
    with pytest.raises(ModelError, match=r"broken: its experts cannot be used \(.+\); take") as raised:
        finetune(TASKS["ner"](), str(folder), entities, QUICK, out=tmp_path / "model", with_experts=True)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "model").exists()
