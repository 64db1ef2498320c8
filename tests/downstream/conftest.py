"""A pretrained model of a few thousand weights, and data so easy that even this model learns it."""

import json
import random
import shutil
from pathlib import Path

import pytest
from transformers import AlbertConfig, AlbertForPreTraining, PreTrainedTokenizerFast, set_seed

from downstream.data.loading import DataOptions
from downstream.training import Settings
from swarm.run_file import parse_run
from tokenizer.training import train_tokenizer

PEOPLE = ("রবীন্দ্রনাথ", "সুকুমার", "অবনীন্দ্রনাথ", "বেগম")
PLACES = ("ঢাকা", "কলকাতা", "খুলনা")
OTHERS = ("নদী", "নৌকা", "বই", "লেখেন", "যান", "থেকে", "হয়", "।")
GOOD, BAD = ("চমৎকার", "ভালো"), ("বাজে", "খারাপ")
MAX_LENGTH = 32

QUICK = Settings(epochs=4, patience=4, batch_size=8, learning_rates=(1e-2,), seeds=1)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    """As a run of Bengali has it."""
    run = parse_run(
        {
            "name": "nodi",
            "language": "bn",
            "tokenizer": {"vocab_size": 260},
            "data": {"train": [{"path": "text.jsonl"}], "max_length": MAX_LENGTH},
        },
        Path("run.yaml"),
    )
    # a Unigram trainer makes a token of what several different words share
    stems = [*PEOPLE, *PLACES, *OTHERS, *GOOD, *BAD]
    words = [stem + ending for stem in stems for ending in ("", "র", "কে", "তে", "ও", "ই")]
    draw = random.Random(0)
    return train_tokenizer(run, [" ".join(draw.choices(words, k=20)) for _ in range(200)])


@pytest.fixture(scope="session")
def pretrained(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as a run saves it; nobody may change its folder."""
    folder = tmp_path_factory.mktemp("models") / "albert-nodi"
    write_pretrained(folder, tokenizer, seed=1)
    return folder


def write_pretrained(folder: Path, tokenizer: PreTrainedTokenizerFast, *, seed: int, step: int | None = None) -> Path:
    """Weights drawn at random; with a step they lie in a checkpoint of a run."""
    set_seed(seed)
    config = AlbertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        embedding_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )
    AlbertForPreTraining(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if step is not None:
        (folder / "trainer_state.json").write_text(json.dumps({"run": "nodi", "step": step, "samples": step * 64}))
        (folder / "optimizer.pt").write_bytes(b"not read")
    return folder


@pytest.fixture
def copied(pretrained: Path, tmp_path: Path) -> Path:
    """A copy of the pretrained model to break."""
    return Path(shutil.copytree(pretrained, tmp_path / "broken"))


def sentence(draw: random.Random) -> list[tuple[str, str]]:
    """Words with their tags; a place may be two words long."""
    found = [(word, "O") for word in draw.choices(OTHERS, k=draw.randint(2, 5))]
    found.insert(draw.randint(0, len(found)), (draw.choice(PEOPLE), "B-PER"))
    at = draw.randint(0, len(found))
    found[at:at] = [(draw.choice(PLACES), "B-LOC")]
    return found


def write_conll(path: Path, count: int, seed: int) -> Path:
    draw = random.Random(seed)
    blocks = ["".join(f"{word}\t{tag}\n" for word, tag in sentence(draw)) for _ in range(count)]
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def write_jsonl(path: Path, count: int, seed: int) -> Path:
    """Texts with a good or a bad word."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.choice(("positive", "negative"))
        words = [*draw.choices(OTHERS, k=4), draw.choice(GOOD if label == "positive" else BAD)]
        draw.shuffle(words)
        rows.append(json.dumps({"text": " ".join(words), "label": label}, ensure_ascii=False) + "\n")
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def entities(tmp_path_factory: pytest.TempPathFactory) -> DataOptions:
    """Named entities in CoNLL files."""
    folder = tmp_path_factory.mktemp("ner")
    return DataOptions(
        write_conll(folder / "train.conll", 96, 1),
        write_conll(folder / "validation.conll", 24, 2),
        write_conll(folder / "test.conll", 24, 3),
    )


@pytest.fixture(scope="session")
def opinions(tmp_path_factory: pytest.TempPathFactory) -> DataOptions:
    """Good and bad opinions in JSON lines."""
    folder = tmp_path_factory.mktemp("opinions")
    return DataOptions(
        write_jsonl(folder / "train.jsonl", 96, 1),
        write_jsonl(folder / "validation.jsonl", 24, 2),
        write_jsonl(folder / "test.jsonl", 24, 3),
    )
