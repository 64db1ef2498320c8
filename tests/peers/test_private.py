"""What others on the machine could see of a run: the rights of its files, the environments of its processes."""

import contextlib
import os
import secrets
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.demo.peers import Peer
from app.join.peer_folder import LINK
from coordinator.state_folder import UNNAMED
from swarm.secret_variables import NAMES, WEBHOOKS
from tests.support.hub.stand_in import HubStandIn
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tests.support.small_swarm import COUNTING, PATIENCE, SmallSwarm, signal_group, text_of

pytestmark = pytest.mark.swarm
HELPERS = 2  # processes of a peer beside the main one: DHT node, libp2p's daemon


def everything_in(folder: Path) -> Iterator[Path]:
    """The folder and all that is in it, while a peer writes and removes some: `rglob` fails where a folder vanishes."""
    for found, _, names in os.walk(folder):
        yield from (Path(found), *(Path(found, name) for name in names))


def open_to_others(folder: Path) -> dict[str, str]:
    """Files and folders that are not their owner's alone, with their rights."""
    modes = dict[Path, int]()
    for path in everything_in(folder):
        with contextlib.suppress(FileNotFoundError):
            modes[path] = path.lstat().st_mode
    usual = {path: mode for path, mode in modes.items() if not stat.S_ISLNK(mode)}
    return {
        str(path): oct(mode)
        for path, mode in usual.items()
        if stat.S_IMODE(mode) != (0o700 if stat.S_ISDIR(mode) else 0o600)
    }


def written_in(folder: Path) -> bytes:
    """What all files there have now."""
    written = b""
    for path in everything_in(folder):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            written += path.read_bytes()
    return written


def old_folder(folder: Path, sign: str) -> Path:
    """A folder as an earlier start left it, open to everybody.

    `sign`: a file by which the program knows it as its own.
    """
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "coordinator.jsonl.1").write_text("{}\n")
    (folder / sign).touch()
    assert open_to_others(folder), "the umask of this test gives rights to others"
    return folder


def helpers(peer: Peer) -> list[psutil.Process]:
    """All processes that a peer has started, and theirs."""
    return psutil.Process(peer.process.pid).children(recursive=True)


def test_files_are_the_owners_alone_and_no_process_shows_a_token(
    corpus: Path, tokenizer_folder: Path, tmp_path: Path, hub_stand_in: HubStandIn
):
    token = hub_stand_in.add("asha", "river", role="write")
    given = {name: secrets.token_hex(20) for name in NAMES} | {"HF_TOKEN": token, "WANDB_MODE": "offline"}
    given[WEBHOOKS] = f"http://127.0.0.1:9/{given[WEBHOOKS]}"  # where nobody listens
    settings: dict[str, Any] = {
        "access": {"users": ["bela"]},
        "release": {"repo": "river/small", "every": 1, "license": "apache-2.0"},
        "coordinator": {"wandb_project": "small"},
    }
    swarm = SmallSwarm(tmp_path, corpus, tokenizer_folder, target_batch_size=2048, **settings)
    homes = [old_folder(swarm.state, UNNAMED), old_folder(tmp_path / "peers" / "bela", LINK)]
    try:
        coordinator = swarm.coordinator(by_command=True, environment=given)
        key = {"WANDB_API_KEY": given["WANDB_API_KEY"]}
        trainer = swarm.trainer("bela", token=hub_stand_in.add("bela"), by_command=True, environment=key)
        swarm.wait(lambda: ": released" in text_of(coordinator), "release with the token that was given")
        swarm.wait(lambda: trainer.said(COUNTING), "sample of the trainer")
        swarm.wait((swarm.state / "ledger.db-backup").exists, "copy of the ledger")

        used = [*hub_stand_in.accounts, *(given[name] for name in NAMES)]
        running = {peer.name: [psutil.Process(peer.process.pid), *helpers(peer)] for peer in (coordinator, trainer)}
        assert all(len(processes) > HELPERS for processes in running.values()), running
        assert any("wandb" in process.name() for process in running["coordinator"]), running
        for process in [*running["coordinator"], *running["bela"]]:
            shown = Path(f"/proc/{process.pid}/environ").read_text(errors="replace")
            assert "PATH=" in shown
            assert not [secret for secret in used if secret in shown], process
        found = {path.name for path in everything_in(swarm.state)}
        assert {"ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-backup", "notices.json", "pass"} <= found
        assert {"identity.key", "authority.key", "admin.key", "model.safetensors", "coordinator.jsonl"} <= found
        assert any(name.endswith(".wandb") for name in found)
        assert [open_to_others(home) for home in homes] == [{}, {}]
        written = b"".join(written_in(home) for home in homes)
        assert not [secret for secret in used if secret.encode() in written]

        for peer in (trainer, coordinator):
            signal_group(peer, signal.SIGINT)
            assert peer.process.wait(PATIENCE) == 0, swarm.last_words()
        assert [open_to_others(home) for home in homes] == [{}, {}]
    finally:
        swarm.kill_all()
