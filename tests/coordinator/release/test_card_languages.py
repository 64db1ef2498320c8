"""The model card in the run's language."""

import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from coordinator.ledger.ledger import Ledger
from coordinator.release.card import TEMPLATE, card
from coordinator.release.facts import Facts, read_record
from swarm.run_file import RunFile
from tests.coordinator.release.conftest import REPO, MakeCheckpoint

HEADINGS = ["যেভাবে ব্যবহার করবেন", "ডেটা", "প্রশিক্ষণ", "মূল্যায়ন", "অবদানকারী", "গণনা ও কার্বন, আনুমানিক", "এটি যা নয়", "উদ্ধৃতি"]
NAMES = {"ALBERT", "Lan", "LAMB", "AdamW", "ModernBERT", "Warner", "You", "Muon", "Jordan", "et", "al", "kWh"}


@pytest.fixture
def facts(run: RunFile, ledger: Ledger, make_checkpoint: MakeCheckpoint) -> Facts:
    record = read_record(ledger, run, frozenset())
    return Facts(run, make_checkpoint(100).state, 3456, 96, REPO, record, "loss.png")


def in_language(facts: Facts, code: str) -> str:
    return card(Facts(**{**vars(facts), "run": facts.run.model_copy(update={"language": code})}))


def test_a_bengali_card_has_bengali_headings_and_the_same_figures(facts: Facts) -> None:
    english, bengali = in_language(facts, "en"), in_language(facts, "bn")
    assert re.findall(r"^## (.*)$", bengali, re.MULTILINE) == HEADINGS
    for told in ("| ব্যাচ | একটি গ্লোবাল ধাপে 4,096টি নমুনা |", "| আরও 1 জন | 25.0% |", "![গ্লোবাল ধাপ অনুযায়ী লস](loss.png)"):
        assert told in bengali
    assert bengali.count("\n|") == english.count("\n|") and bengali.count("```") == english.count("```")
    assert not re.search(r"\{\w+\}", bengali.partition("```bibtex")[0].replace("{guess", ""))


def test_what_the_hub_reads_is_the_same_in_every_language(facts: Facts) -> None:
    english, bengali = (ModelCard(in_language(facts, code)).data.to_dict() for code in ("en", "bn"))
    assert english | {"language": "bn"} == bengali


def test_no_sentence_of_the_card_is_left_in_english() -> None:
    text = re.sub(
        r"\{#.*?#\}|\{\{.*?\}\}|\{%.*?%\}|```.*?```|`[^`]*`|\]\([^)]*\)",
        " ",
        Path(TEMPLATE).read_text(),
        flags=re.DOTALL,
    )
    text = text.replace("Open in Colab", "").replace("Open in Kaggle", "")
    assert set(re.findall(r"[A-Za-z]+", text)) <= NAMES, "wrap it in _()"
