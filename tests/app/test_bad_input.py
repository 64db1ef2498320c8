"""Whatever is wrong with the input: one clear line, a status that is not zero, and nothing half-written."""

import json
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import yaml

from swarm.identity import load_identity
from swarm.run_file import RunFile, load_run
from tests.support.forked import start_forked
from tests.support.waiting import PATIENCE
from tokenizer.training import train_tokenizer

NOBODY = "/ip4/127.0.0.1/tcp/9/p2p/QmNtEvvDJaoK5CDjFJ2qezb8QLpPci95kFeTuiu1fHvQqg"
TEXT = "The river carries the boats down to the sea. Many small boats carry more than one ship. "


@pytest.fixture(scope="session")
def tokenizer_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer of 200 pieces."""
    folder = tmp_path_factory.mktemp("tokenizer")
    run = load_run(write_run(folder))
    train_tokenizer(run, [TEXT, topics["assert"], topics["if"]]).save_pretrained(folder / "tokenizer")
    return folder / "tokenizer"


@pytest.fixture
def run_file(tmp_path: Path, tokenizer_files: Path) -> Path:
    """A run in which nothing is wrong yet."""
    (tmp_path / "tokenizer").symlink_to(tokenizer_files)
    return write_run(tmp_path)


def write_run(folder: Path, **changes: object) -> Path:
    (folder / "text.jsonl").write_text((json.dumps({"text": TEXT * 5}) + "\n") * 30)
    content: dict[str, object] = {
        "name": "river",
        "model": {
            "hidden_size": 16,
            "embedding_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
        },
        "tokenizer": {"vocab_size": 200},
        "data": {"train": [{"path": "text.jsonl"}], "max_length": 32},
        "coordinator": {"listen": ["/ip4/127.0.0.1/tcp/0"]},
        "access": {"open": True, "host": "127.0.0.1", "port": 0},
    }
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(content | changes))
    return file


@dataclass(frozen=True)
class Ended:
    """A command that has ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def sahaj(*arguments: object, cwd: Path, **environment: str) -> Ended:
    with tempfile.TemporaryDirectory() as said:
        out, err = Path(said) / "out", Path(said) / "err"
        status = start_forked(arguments, out, err, cwd=cwd, environment=environment).wait(PATIENCE)
        return Ended(status, out.read_text(), err.read_text())


def assert_one_line(done: Ended, *words: str) -> None:
    """The command ended with one line on standard error that says all these words."""
    assert done.returncode not in (0, 130) and done.returncode > 0, done
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("sahaj: ")
    missing = [word for word in words if word not in line]
    assert not missing, f"{line!r} does not name {missing}"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.jsonl", None, ["missing.jsonl", "no such"]),
        ("empty.jsonl", b"", ["empty.jsonl", "empty"]),
        ("blank.txt", b"\n\n  \n", ["blank.txt"]),
        ("binary.txt", bytes(range(256)) * 64, ["binary.txt", "binary"]),
        ("other-key.jsonl", b'{"body": "The river."}\n', ["other-key.jsonl", "text"]),
        ("few.txt", b"One line alone.\n", ["few.txt", "too few"]),
    ],
)
def test_the_demo_refuses_a_corpus_that_is_no_text(tmp_path: Path, name: str, content: bytes | None, words: list[str]):
    corpus = tmp_path / name
    if content is not None:
        corpus.write_bytes(content)
    assert_one_line(sahaj("demo", "--corpus", corpus, "--out", "out", cwd=tmp_path), *words)
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not left, f"half-written: {left}"


def test_the_demo_refuses_a_run_file_of_too_few_global_steps(tmp_path: Path):
    file = write_run(tmp_path, optimizer={"total_steps": 2, "warmup_steps": 1})
    refused = sahaj("demo", "--run", file, "--out", "out", cwd=tmp_path)
    assert_one_line(refused, "run.yaml", "total_steps is 2", "--steps")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("command", "changes", "words"),
    [
        ("coordinator", {"modle": {}}, ["modle"]),
        ("coordinator", {"model": {"hidden_sise": 16}}, ["hidden_sise"]),
        ("coordinator", {"optimizer": {"total_steps": "many"}}, ["total_steps", "many"]),
        ("tokenizer", {"name": "River Run"}, ["name", "River Run"]),
    ],
)
def test_a_wrong_run_file_is_named_before_anything_starts(
    tmp_path: Path, command: str, changes: dict[str, object], words: list[str]
):
    file = write_run(tmp_path, **changes)
    before = sorted(tmp_path.iterdir())
    arguments: dict[str, list[object]] = {
        "coordinator": ["coordinator", file],
        "tokenizer": ["tokenizer", "train", file],
    }
    assert_one_line(sahaj(*arguments[command], cwd=tmp_path), "run.yaml", *words)
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_file_that_is_not_there_is_named(tmp_path: Path):
    assert_one_line(sahaj("coordinator", "nowhere.yaml", cwd=tmp_path), "nowhere.yaml", "no such run file")
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_larger_than_the_run_says_is_refused(run_file: Path):
    folder = run_file.parent
    write_run(folder, tokenizer={"vocab_size": 64})
    assert_one_line(sahaj("coordinator", run_file, cwd=folder), "tokenizer.vocab_size is 64")
    assert not (folder / "river-state" / "checkpoints").exists()


def test_a_missing_tokenizer_is_named_with_the_way_out(tmp_path: Path):
    file = write_run(tmp_path)
    done = sahaj("coordinator", file, cwd=tmp_path)
    assert_one_line(done, "no such tokenizer folder", "sahaj tokenizer train")
    assert not (tmp_path / "river-state").exists()


@pytest.mark.parametrize("access", [None, {}, {"port": 8080}, "absent"])
def test_a_run_that_nobody_could_join_is_refused(tmp_path: Path, access: object):
    file = write_run(tmp_path, access=access)
    if access == "absent":
        file.write_text(file.read_text().replace("access: absent\n", ""))
    assert_one_line(sahaj("coordinator", file, cwd=tmp_path), "run.yaml: access", "open, users or organizations")
    assert not (tmp_path / "river-state").exists()


@pytest.mark.swarm
def test_an_initial_peer_that_does_not_answer_is_named(run_file: Path):
    done = sahaj("coordinator", run_file, "--initial-peers", NOBODY, cwd=run_file.parent)
    assert_one_line(done, NOBODY, "no initial peer answers")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("coordinator.example.org:31337", ["coordinator.example.org:31337", "/ip4/"]),
        ("/ip4/127.0.0.1/tcp/31337", ["/ip4/127.0.0.1/tcp/31337", "/p2p/"]),
        ("/ip4/127.0.0.1/tcp/31337/p2p/nonsense", ["nonsense"]),
        ("/ip4/300.0.0.1/tcp/31337/p2p/QmNtEvvDJaoK5CDjFJ2qezb8QLpPci95kFeTuiu1fHvQqg", ["300.0.0.1"]),
        ("", ["'': not an address"]),
    ],
)
def test_an_initial_peer_that_is_no_address_is_named(run_file: Path, address: str, words: list[str]):
    done = sahaj("coordinator", run_file, "--initial-peers", address, cwd=run_file.parent)
    assert_one_line(done, *words)


@pytest.mark.swarm
def test_a_port_in_use_is_named(run_file: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"/ip4/127.0.0.1/tcp/{taken.getsockname()[1]}"
        done = sahaj("coordinator", run_file, "--listen", address, cwd=run_file.parent)
    assert_one_line(done, address, "port is in use")
    assert not (run_file.parent / "river-state" / "addresses.txt").exists()


@pytest.mark.swarm
@pytest.mark.parametrize(
    ("options", "environment"), [(["--log-level", "debug"], {}), ([], {"SAHAJ_LOG_LEVEL": "debug"})]
)
def test_the_log_too_says_why_a_coordinator_ended(run_file: Path, options: list[str], environment: dict[str, str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"/ip4/127.0.0.1/tcp/{taken.getsockname()[1]}"
        done = sahaj("coordinator", run_file, "--listen", address, *options, cwd=run_file.parent, **environment)
    lines = (run_file.parent / "river-state" / "logs" / "coordinator.jsonl").read_text().splitlines()
    messages = [json.loads(line)["message"] for line in lines]
    assert "the log begins, at level debug" in messages
    assert done.stderr == f"sahaj: {messages[-1].removeprefix('ended: ')}\n"


def test_an_identity_that_another_process_uses_is_refused(run_file: Path):
    folder = run_file.parent
    identity = load_identity(folder / "state" / "identity.key")
    key = identity.path.read_bytes()
    done = sahaj("coordinator", run_file, "--state", "state", cwd=folder)
    identity.lock.close()
    assert_one_line(done, "identity.key", "another process")
    assert identity.path.read_bytes() == key


def test_the_rights_of_a_folder_of_other_things_are_left_alone(run_file: Path):
    before = run_file.parent.stat().st_mode, run_file.stat().st_mode
    done = sahaj("coordinator", run_file, "--state", ".", cwd=run_file.parent)
    assert_one_line(done, "--state .: holds something other than a coordinator's state")
    assert (run_file.parent.stat().st_mode, run_file.stat().st_mode) == before


@pytest.mark.parametrize("content", [b"", b"not a key"])
def test_a_broken_identity_is_named(run_file: Path, content: bytes):
    file = run_file.parent / "state" / "identity.key"
    file.parent.mkdir()
    file.write_bytes(content)
    done = sahaj("coordinator", run_file, "--state", "state", cwd=run_file.parent)
    assert_one_line(done, "identity.key", "remove it")
    assert file.read_bytes() == content


def test_where_there_is_nothing_to_go_on_from_no_run_begins_by_resuming(run_file: Path):
    done = sahaj("coordinator", run_file, "--state", "state", "--resume", cwd=run_file.parent)
    assert_one_line(done, "--resume", "state has neither a log nor a checkpoint", "--state FOLDER", "--from-hub")
    assert not (run_file.parent / "state").exists()
    identity = run_file.parent / "state" / "identity.key"  # as from a backup of keys alone
    load_identity(identity).lock.close()
    done = sahaj("coordinator", run_file, "--state", "state", "--resume", cwd=run_file.parent)
    assert_one_line(done, "--resume", "state has neither a log nor a checkpoint")


def test_a_state_folder_of_another_run_is_refused(run_file: Path):
    folder = run_file.parent
    checkpoint = save_some_checkpoint(load_run(run_file), folder / "state" / "checkpoints")
    before = {path: path.read_bytes() for path in checkpoint.iterdir()}
    write_run(folder, optimizer={"learning_rate": 0.5})
    done = sahaj("coordinator", run_file, "--state", "state", cwd=folder)
    assert_one_line(done, "checkpoint-7", "optimizer.learning_rate", "another state folder", "--state")
    assert {path: path.read_bytes() for path in checkpoint.iterdir()} == before
    assert sorted(path.name for path in (folder / "state").iterdir()) == ["checkpoints"]


def save_some_checkpoint(run: RunFile, folder: Path) -> Path:
    from coordinator.checkpoints.checkpoint import TrainerState
    from coordinator.checkpoints.store import save_checkpoint
    from swarm.run_file.fingerprint import fingerprint
    from tokenizer.loading import load_tokenizer, tokenizer_digest
    from trainer.model import build_model

    tokenizer = load_tokenizer(run)
    digest = fingerprint(run, tokenizer_digest(tokenizer)).digest
    state = TrainerState(run.name, 7, 1024, None, "2026-01-01T00:00:00+00:00", digest, "sahaj 0.1.0")
    model = build_model(run, tokenizer)
    return save_checkpoint(folder, model=model, tokenizer=tokenizer, optimizer_state={}, run=run, state=state)
