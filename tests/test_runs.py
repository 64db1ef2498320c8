"""The run files that come with the program: each is valid and says what it is meant to say."""

from pathlib import Path

import pytest

from swarm.run_file import load_run

RUNS = sorted((Path(__file__).parents[1] / "runs").glob("*.yaml"))


@pytest.mark.parametrize("path", RUNS, ids=[path.stem for path in RUNS])
def test_a_run_file_is_valid_and_named_after_its_run(path):
    run = load_run(path)
    assert run.name == path.stem
    assert run.description
    assert run.data.validation, "a run without held-out text cannot show that it learns"


def test_all_settings_are_there():
    assert {path.stem for path in RUNS} >= {"demo", "bengali", "english"}


def test_the_demo_listens_on_this_machine_alone():
    demo = load_run(next(path for path in RUNS if path.stem == "demo"))
    assert demo.coordinator.listen == ["/ip4/127.0.0.1/tcp/0"]


def test_the_bengali_run_draws_from_the_encyclopedia_and_the_web_as_sahajbert_did():
    bengali = load_run(next(path for path in RUNS if path.stem == "bengali"))
    assert bengali.language == "bn"
    assert bengali.tokenizer.vocab_size == 32_000
    assert [(source.hub, source.config, source.weight) for source in bengali.data.train] == [
        ("wikimedia/wikipedia", "20231101.bn", 0.23),
        ("HuggingFaceFW/fineweb-2", "ben_Beng", 0.77),
    ]
