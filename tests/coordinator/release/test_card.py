"""The model card: what it tells, that it is a good one by the Hub's own word, and that what it shows runs."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import ModelCard, ModelCardData
from matplotlib.figure import Figure

from coordinator.checkpoints.checkpoint import Checkpoint, CheckpointError
from coordinator.ledger.ledger import Ledger
from coordinator.release.build import make_release
from coordinator.release.card import card
from coordinator.release.cost import cost_of, watts_of, weights_used
from coordinator.release.curve import paint, picture
from coordinator.release.facts import Facts, Record, credit_of, read_record, read_unnamed
from coordinator.release.hub import HubRepository
from coordinator.release.publish import publish
from coordinator.state_folder import UNNAMED
from experts import file_names
from experts.host.files import StateFiles
from experts.host.release import pack
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert
from swarm.errors import StorageError
from swarm.run_file import RunFile
from tests.coordinator.release.conftest import REPO, MakeCheckpoint, repository
from tests.support.hub.reader import read_from_hub
from tests.support.hub.stand_in import HubStandIn

Judge = Callable[[str], ModelCard]


@pytest.fixture
def record(ledger: Ledger, run: RunFile) -> Record:
    return read_record(ledger, run, frozenset())


@pytest.fixture
def judge(hub: HubStandIn, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """What the Hub says of a card; raises ValueError if it is not good."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)  # it was read while importing

    def read(text: str) -> ModelCard:
        found = ModelCard(text)
        found.validate()
        return found

    return read


@pytest.fixture
def facts(run: RunFile, record: Record, make_checkpoint: MakeCheckpoint) -> Facts:
    return Facts(run, make_checkpoint(100).state, 3456, 96, REPO, record, "loss.png")


def test_a_card_tells_language_sources_procedure_scores_people_and_costs(facts: Facts):
    text = card(facts)
    shown = re.sub(r"\\(\W)", r"\1", text)  # as a page shows it
    for told in (
        "An ALBERT that has read about a river",
        "3,456 parameters and a vocabulary of 96 tokens",
        "global step 100 of 1,000",
        "(https://huggingface.co/datasets/river/texts), configuration en, split train | cc-by-sa-4.0 | 75% of the",
        "| files of the organizer | not stated by the organizer | 25%",
        "[river/texts](https://huggingface.co/datasets/river/texts), split test | cc-by-sa-4.0 | held out",
        "| optimizer | LAMB |",
        "| its betas and epsilon | 0.9, 0.999, 1e-06 |",
        "| batch | 4,096 samples in a global step |",
        "![The loss by global step](loss.png)",
        "| held-out loss of masked tokens, nats | 3.250 |",
        "| loss of guessing from word frequencies alone on the same tokens, nats | 5.500 |",
        "| how far the model is below that, nats | 2.250 |",
        "| perplexity of masked tokens | 25.80 |",
        "| sentence order accuracy | 75.0% |",
        "| [asha](https://huggingface.co/asha) | 75.0% |",
        "| one more person | 25.0% |",
        "kg of CO2 equivalents",
        "@misc{river_run_2026,",
        "url = {https://huggingface.co/river/boats}",
        "Diskin",
    ):
        assert told in shown, told
    assert "visitor" not in text and "/home/asha" not in text and "boat," not in text


def test_a_card_tells_of_the_experts_whose_file_is_in_the_checkpoint(
    run: RunFile, make_checkpoint: MakeCheckpoint, tmp_path: Path
):
    def of(checkpoint: Checkpoint) -> str:
        made = make_release(run, checkpoint, REPO, record=None, also={}, tags=()).files["README.md"]
        assert isinstance(made, bytes)
        return made.decode()

    checkpoint = make_checkpoint(100)
    assert "experts" not in of(checkpoint)
    settings = ExpertSettings(grid=(2, 2), width=4, hidden=4)
    files = StateFiles(tmp_path / "states", settings)
    for uid in ((0, 1), (1, 0), (1, 1)):
        files.write(uid, 5, to_bytes(TrainedExpert(uid, settings, 5)))
    pack(files, settings, checkpoint.path / file_names.EXPERTS)
    assert "`experts.safetensors` has the parameters of 3 experts" in of(checkpoint)
    (checkpoint.path / file_names.EXPERTS).write_bytes(b"cut short")
    with pytest.raises(CheckpointError, match="is broken"):
        of(checkpoint)


def test_a_card_names_the_optimizer_that_was_used(facts: Facts):
    def of(name: str) -> str:
        optimizer = facts.run.optimizer.model_copy(update={"name": name})
        return card(replace(facts, run=facts.run.model_copy(update={"optimizer": optimizer})))

    assert "LAMB: You et al., 2020." in of("lamb")
    assert "| optimizer | AdamW |" in of("adamw") and "LAMB" not in of("adamw")
    assert "Muon: Jordan et al., 2024." in of("muon") and "LAMB" not in of("muon")


def test_the_hub_finds_a_card_good_and_reads_its_metadata(judge: Judge, facts: Facts):
    data = judge(card(facts)).data
    assert isinstance(data, ModelCardData)
    assert (data.language, data.license, data.library_name, data.pipeline_tag) == (
        "en",
        "apache-2.0",
        "transformers",
        "fill-mask",
    )
    assert data.datasets == ["river/texts"]
    assert {one.metric_type: one.metric_value for one in data.eval_results or []} == {
        "loss": 3.25,
        "perplexity": 25.8,
        "accuracy": 0.75,
    }


def test_a_card_without_scores_ledger_or_licences_says_so(facts: Facts, judge: Judge):
    bare = facts.run.model_copy(update={"release": None, "description": ""})
    state = replace(
        facts.state,
        eval_loss=None,
        perplexity=None,
        sentence_order_accuracy=None,
        unigram_loss=None,
        below_unigram=None,
    )
    text = card(Facts(bare, state, 1, 1, REPO, None))
    judge(text)
    assert "was not evaluated" in text
    assert "Contributors" not in text and "carbon" not in text.lower() and "model-index" not in text


@pytest.mark.parametrize(
    ("start_from", "told", "base"),
    [
        (None, "random weights, with word vectors computed from counts in the training text.", None),
        (
            "albert/base",
            "the weights of [albert/base](https://huggingface.co/albert/base).",
            "albert/base",
        ),
        ("~asha/checkpoint-9", "the weights of another model of the organizer.", None),
    ],
)
def test_the_card_tells_what_the_run_began_with(
    facts: Facts, judge: Judge, start_from: str | None, told: str, base: str | None
):
    model = facts.run.model.model_copy(update={"start_from": start_from})
    text = card(replace(facts, run=facts.run.model_copy(update={"model": model})))
    judge(text)
    assert f"pretrained by volunteers on their own computers from {told}" in text and "asha/checkpoint" not in text
    assert ModelCard(text).data.to_dict().get("base_model") == base


def test_the_card_says_what_the_run_began_with_where_its_text_was_not_at_hand(facts: Facts):
    text = card(replace(facts, state=replace(facts.state, random_embeddings=True)))
    assert "own computers from random weights. " in text and "counts in the training text" not in text


def test_words_of_people_become_no_markup(facts: Facts):
    evil = facts.run.model_copy(update={"description": "<script>![x](http://x)\n---\nlicense: mit"})
    text = card(replace(facts, run=evil))
    assert "<script>" not in text and "![x]" not in text
    data = ModelCard(text).data
    assert isinstance(data, ModelCardData) and data.license == "apache-2.0"


def test_the_notebook_is_linked_where_it_goes_with_the_release(facts: Facts):
    assert "colab" not in card(facts)
    text = card(replace(facts, made=("join.ipynb",)))
    assert (
        "colab.research.google.com/#fileId=https%3A%2F%2Fhuggingface.co%2Friver%2Fboats%2Fblob%2Fmain%2Fjoin.ipynb"
        in text
    )
    assert "kaggle.com/kernels/welcome?src=https://huggingface.co/river/boats/resolve/main/join.ipynb" in text


def test_only_who_wants_it_is_named(ledger: Ledger, run: RunFile, state_folder: Path):
    leaders = ledger.leaderboard()
    named = lambda whom, unnamed=frozenset(): [  # noqa: E731
        one.user for one in credit_of(leaders, whom, unnamed).named
    ]
    assert named("verified") == ["asha"]
    assert named("all") == ["asha", "~visitor"]
    assert named("none") == []
    assert named("all", frozenset({"asha"})) == ["~visitor"]
    (state_folder / UNNAMED).write_bytes("\ufeff@Asha\n\nashha\n".encode())
    credit = read_record(ledger, run, read_unnamed(state_folder)).credit
    assert credit.named == () and credit.others == 2 and math.isclose(credit.others_share, 1.0)
    assert credit.unknown == ("ashha",)


def test_a_list_of_those_who_are_not_named_that_cannot_be_read_stops_the_release(state_folder: Path):
    assert read_unnamed(state_folder) == frozenset()
    (state_folder / UNNAMED).write_bytes("আশা\n".encode("utf-16"))
    with pytest.raises(StorageError, match=r"unnamed\.txt: cannot be read \(it is not UTF-8\)"):
        read_unnamed(state_folder)
    (state_folder / UNNAMED).unlink()
    (state_folder / UNNAMED).mkdir()
    with pytest.raises(StorageError, match=r"unnamed\.txt: cannot be read"):
        read_unnamed(state_folder)


def test_the_cost_is_that_of_the_hours_and_devices(run: RunFile):
    cost = cost_of(run, 96, 1000, {"Tesla T4": 2.0, "cpu (2 threads)": 1.0})
    assert cost.hours == 3.0
    assert math.isclose(cost.energy, (2 * (70 + 30) + 65 + 30) / 1000)
    assert math.isclose(cost.carbon, 0.48 * cost.energy)
    assert cost.operations == 6 * 1000 * weights_used(run, 96)
    assert (watts_of("NVIDIA A100-SXM4-40GB"), watts_of("NVIDIA GeForce RTX 3090"), watts_of("mps")) == (400, 350, 40)


@pytest.mark.parametrize(
    ("device", "watts"),
    [
        ("NVIDIA A100-SXM4-80GB", 400),
        ("NVIDIA RTX A1000", 220),
        ("Tesla P100-PCIE-16GB", 250),
        ("Quadro P1000", 220),
        ("NVIDIA A10", 150),
        ("NVIDIA A10G", 300),
        ("NVIDIA L4", 72),
        ("NVIDIA L40", 300),
        ("NVIDIA L40S", 350),
        ("NVIDIA H100 80GB HBM3", 700),
        ("NVIDIA H100 PCIe", 350),
        ("NVIDIA H200", 700),
        ("cpu (2 threads)", 65),
    ],
)
def test_a_board_is_not_taken_for_another_with_a_longer_name(device: str, watts: float):
    assert watts_of(device) == watts


def test_the_card_says_what_is_assumed_of_devices(facts: Facts):
    assert "220 W for a GPU whose board is not known" in card(facts) and "65 W for a processor" in card(facts)


def test_the_weights_of_a_large_albert_are_those_of_its_layers(run: RunFile):
    """12 h^2 for each of 24 layers, and little else."""
    large = run.model.model_validate({})
    used = weights_used(run.model_copy(update={"model": large}), 32_000)
    assert math.isclose(used, 24 * 12 * 1024**2, rel_tol=0.01)


def test_those_of_a_modernbert_have_a_gate_in_each_layer(run: RunFile):
    modern = run.model.model_validate({"architecture": "modernbert"})
    used = weights_used(run.model_copy(update={"model": modern}), 32_000)
    assert math.isclose(used, 24 * 16 * 1024**2 + 0.15 * (1024**2 + 32_000 * 1024))


def test_the_curve_shows_what_there_is(record: Record):
    def labels(shown: Record) -> list[str]:
        figure = Figure()
        paint(shown, "river-run", figure)
        assert figure.axes[0].get_title() == "river-run: loss in nats"
        return [str(line.get_label()) for line in figure.axes[0].get_lines()]

    (name, content), *_ = picture(record, "river-run").items()
    assert (name, content[:8]) == ("loss.png", b"\x89PNG\r\n\x1a\n")
    training, held_out, unigram = labels(record)
    assert training.startswith("training") and held_out.startswith("held-out")
    assert unigram == "a table of word frequencies: 5.50"
    unknown = [one.model_copy(update={"unigram_loss": None}) for one in record.evaluations]
    assert labels(replace(record, evaluations=unknown)) == [training, held_out]
    assert labels(replace(record, steps=record.steps[:1], evaluations=[])) == [training]
    assert picture(replace(record, steps=[], evaluations=[]), "river-run") == {}


def test_what_the_card_shows_runs(
    hub: HubStandIn, run: RunFile, record: Record, make_checkpoint: MakeCheckpoint, tmp_path: Path
):
    """Each block of Python is run as somebody would who has only the card."""
    there = HubRepository(REPO)
    there.open()
    publish(there, make_release(run, make_checkpoint(100), REPO, record=record, also={}, tags=()))
    text = repository(hub).head.files["README.md"].content.decode()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    said = read_from_hub("\n".join(blocks), tmp_path / "reader")
    guesses = [line for line in said.splitlines() if re.match(r"[01]\.\d{3} ", line)]
    assert len(guesses) == 5, said
