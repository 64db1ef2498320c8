"""What the demo decides from figures and text, without any peers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.demo.corpus import guess_language, prepare_corpus, python_documentation
from app.demo.demo import DEFAULT_RUN, DemoOptions, run_content
from app.demo.summary import PeerSummary, Summary, problems
from corpus.held_out import EVERY
from swarm.errors import DataError
from swarm.run_file import RunFile, load_run, parse_run

PEER = PeerSummary(name="Asha", samples=900, client_mode=False, fate="finished", first_sample_seconds=7.5)
GOOD = Summary(
    steps=16,
    samples=16_384,
    seconds=200.0,
    samples_per_second=90.0,
    eval_loss_first=8.3,
    eval_loss_last=6.9,
    below_unigram=0.4,
    peers=[PEER, replace(PEER, name="Bela", client_mode=True)],
    averaging_rounds=16,
    averaging_failures=1,
    checkpoint="out/demo/coordinator/checkpoints/checkpoint-16",
    data_wait_fraction=0.004,
)


@pytest.fixture
def run() -> RunFile:
    content = {
        "name": "demo",
        "data": {"train": [{"path": "train.jsonl"}]},
        "optimizer": {"total_steps": 16, "warmup_steps": 2},
    }
    return parse_run(content, Path("run.yaml"))


@pytest.mark.parametrize("steps", [None, 6, 10, 11])
def test_a_short_demo_has_a_short_warm_up(steps: int | None):
    options = DemoOptions(corpus=None, run=None, trainers=3, steps=steps, out=Path("out"))
    run = parse_run(run_content(load_run(DEFAULT_RUN), options, "en"), Path("run.yaml"))
    assert run.optimizer.total_steps == (steps or 160)
    assert run.optimizer.warmup_steps == min(10, run.optimizer.total_steps - 1)


def test_a_demo_in_which_all_happened_has_no_problems(run: RunFile):
    assert problems(run, GOOD) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"steps": 14}, "2 of 16 global steps"),
        ({"eval_loss_last": 8.4}, "did not fall"),
        ({"eval_loss_last": 8.3}, "did not fall"),
        ({"eval_loss_last": float("nan")}, "did not fall"),
        ({"checkpoint": ""}, "checkpoint of global step 16"),
        ({"checkpoint": "checkpoints/checkpoint-12"}, "checkpoint of global step 16"),
        ({"checkpoint": "checkpoints/checkpoint-116"}, "checkpoint of global step 16"),
        ({"data_wait_fraction": 0.05}, "waited for data 5.0%"),
        ({"peers": [PEER, replace(PEER, name="Bela", samples=0)]}, "Bela contributed nothing"),
        ({"peers": [replace(PEER, fate="ended with an error: no port")]}, "Asha ended with an error: no port"),
    ],
)
def test_what_did_not_happen_is_a_problem(run: RunFile, change: dict[str, object], told: str):
    (problem,) = problems(run, replace(GOOD, **change))  # type: ignore[arg-type]
    assert told in problem


def test_a_trainer_that_was_killed_is_no_problem(run: RunFile):
    assert problems(run, replace(GOOD, peers=[PEER, replace(PEER, fate="killed in mid-step")])) == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The river carries the boats.", "en"),
        ("নদী নৌকাগুলিকে সমুদ্রে নিয়ে যায়।", "bn"),
        ("नदी नावों को समुद्र तक ले जाती है।", "hi"),
        ("Река несёт лодки к морю, says the song.", "ru"),
        ("河把船带到海里。", "zh"),
        ("12 345 !?", "en"),
        ("", "en"),
    ],
)
def test_the_script_tells_the_language(text: str, language: str):
    assert guess_language(text) == language


def test_python_carries_megabytes_of_prose():
    documents = list(python_documentation())
    assert len(documents) >= 15 * EVERY  # how many, and how long they are, differs between versions
    assert sum(map(len, documents)) > 1_000_000
    assert all(document.strip() for document in documents)


def test_some_documents_are_kept_from_training(run: RunFile, tmp_path: Path):
    texts = [f"Document {number} tells of the wide river and of all the boats on it." for number in range(2 * EVERY)]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert prepare_corpus(run, corpus, tmp_path / "out") == "en"
    training, held_out = (_texts(tmp_path / "out" / name) for name in ("train.jsonl", "validation.jsonl"))
    assert len(held_out) == 2
    assert sorted(training + held_out) == sorted(texts)


PARAGRAPH = "The river carries the boats of the town down to the sea. It is wide there, and it is slow. "
TEXTS = {
    "paragraphs": PARAGRAPH * 5 + "\n\n",
    "long paragraphs": (PARAGRAPH * 5 + "\n") * 12 + "\n",
    "lines": PARAGRAPH + "\n",
    "Windows": PARAGRAPH * 5 + "\r\n\r\n",
    "one line": PARAGRAPH,
    "Bengali": "নদী নৌকাগুলিকে সমুদ্রে নিয়ে যায়। সেখানে সে চওড়া। " * 5 + "\n\n",
    "one word": "河把船带到海里。",
}


@pytest.mark.parametrize("size", [200_000, 1_100_000])
@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_file_of_200_kb_is_enough(run: RunFile, tmp_path: Path, kind: str, size: int):
    corpus, part = tmp_path / "corpus.txt", TEXTS[kind].encode()
    corpus.write_bytes(part * (size // len(part)))
    prepare_corpus(run, corpus, tmp_path / "out")
    training, held_out = (_texts(tmp_path / "out" / name) for name in ("train.jsonl", "validation.jsonl"))
    assert held_out
    written = "".join("".join(text.split()) for text in [*training, *held_out])
    assert len(written) == len("".join(corpus.read_text().split()))
    if kind == "paragraphs":
        assert all(text.endswith("slow.") for text in training)


def test_too_few_documents_are_refused_before_anything_is_written(run: RunFile, tmp_path: Path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "A document on its own."}\n' * (EVERY - 1))
    with pytest.raises(DataError, match=rf"too few documents \({EVERY - 1}\), at least {EVERY}"):
        prepare_corpus(run, corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _texts(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_text().splitlines()]
