"""`sahaj leave`: all that joining has made goes, nothing else does, and nothing while a peer runs from there."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from app import leave as leaving
from app.installation import LOCK, command, installation, keep_installation
from app.join import peer_folder
from app.join.peer_folder import HOME, IDENTITY, LINK, default_folder
from app.leave import leave
from swarm.errors import SahajError, StorageError

PEER = """
import sys
from pathlib import Path
from app.installation import keep_installation
keep_installation(Path(sys.argv[1]))
print("kept", flush=True)
input()
"""
RIVER, SEA = "https://river.example.org", "http://192.0.2.1:8080"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With two peers of one run, one of another, two installations, a notebook's, and things of other programs."""
    monkeypatch.setenv(HOME, str(tmp_path / "home"))
    home = tmp_path / "home"
    for name, link in (("river.example.org", RIVER), ("river.example.org-2", RIVER), ("192.0.2.1-8080", SEA)):
        make(home / name, IDENTITY, link)
        (home / name / "logs").mkdir()
    for name, link in (("program-river-0a1b2c3d", RIVER), ("program-sea-0a1b2c3d", SEA)):
        make(home / name, LOCK, link)
        (home / name / "venv" / "lib").mkdir(parents=True)
        (home / name / "venv" / "lib" / "large").write_bytes(os.urandom(3_000_000))
    make(home / "program-0.1.0-0123456789abcdef", "pyvenv.cfg")
    (home / "logs").mkdir()
    (home / "texts").mkdir()
    (home / "texts" / "poem.txt").touch()
    (home / "note.txt").touch()
    make(tmp_path / "elsewhere", IDENTITY, RIVER)
    (home / "river.example.org-3").symlink_to(tmp_path / "elsewhere")
    return home


def make(folder: Path, mark: str, link: str | None = None) -> None:
    folder.mkdir(parents=True)
    (folder / mark).touch()
    if link is not None:
        (folder / LINK).write_text(f"{link}\n")


def names(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def left(url: str | None, *, sure: bool = True) -> list[str]:
    said: list[str] = []
    leave(url, lambda question: sure, said.append)
    return said


def test_one_run_is_left(home: Path):
    before = names(home)
    said = left(RIVER)
    gone = {"river.example.org", "river.example.org-2", "program-river-0a1b2c3d"}
    assert names(home) == before - gone
    assert len(said) == 4 and all(any(f"{home / name}: " in line for line in said) for name in gone)
    assert said[-1].startswith("Removed 3 folders, 3 MB")
    assert (home.parent / "elsewhere" / IDENTITY).exists()
    with pytest.raises(SahajError, match=f"nothing from {RIVER} is here, only from {SEA}"):
        left(RIVER)


def test_all_runs_are_left_and_other_things_stay(home: Path):
    left(None)
    assert names(home) == {"texts", "note.txt", "river.example.org-3"}
    assert (home / "texts" / "poem.txt").exists() and (home.parent / "elsewhere" / IDENTITY).exists()
    with pytest.raises(SahajError, match="nothing from any run"):
        left(None)


def test_commands_stay_as_long_as_their_installation(home: Path):
    commands, kept = home / "commands", home / "program-sea-0a1b2c3d" / "venv" / "bin" / "sahaj"
    commands.mkdir()
    kept.parent.mkdir()
    kept.touch()
    for name in ("sahaj", "hf"):
        (commands / name).symlink_to(home / "program-river-0a1b2c3d" / "venv" / "bin" / name)
    (commands / "another").symlink_to(home.parent / "not-mounted")
    left(RIVER)
    assert names(commands) == {"sahaj", "another"} and (commands / "sahaj").resolve() == kept.resolve()
    left(SEA)
    assert names(commands) == {"another"}


def test_a_person_is_told_the_path_of_a_program_that_no_search_path_has(home: Path):
    environment, link = home / "program-river-0a1b2c3d" / "venv", home / "commands" / "sahaj"
    assert command(home / "texts" / "venv") == "sahaj"
    assert command(environment) == str(environment / "bin" / "sahaj")
    link.parent.mkdir()
    link.symlink_to(environment / "bin" / "sahaj")
    assert command(environment) == str(link)
    assert command(home / "program-sea-0a1b2c3d" / "venv") != str(link), "that of another run"


def test_an_empty_home_goes_too(home: Path):
    (home / "texts" / "poem.txt").unlink()
    (home / "texts").rmdir()
    (home / "note.txt").unlink()
    (home / "river.example.org-3").unlink()
    left(None)
    assert not home.exists()


def test_without_consent_nothing_goes(home: Path):
    before = names(home)
    with pytest.raises(SahajError, match="nothing was removed"):
        left(RIVER, sure=False)
    assert names(home) == before


@pytest.mark.parametrize("name", ["river.example.org-2", "program-river-0a1b2c3d"])
def test_nothing_goes_while_a_peer_runs_there(home: Path, name: str):
    before = names(home)
    lock = home / name / (LOCK if name.startswith("program-") else IDENTITY)
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(SahajError, match=f"{name}: a peer runs there; stop it first"):
            left(RIVER)
        assert names(home) == before
    left(RIVER)


@pytest.mark.parametrize("folder", ["experts", "experts-0a1b2c3d"])
def test_that_saved_experts_may_be_the_only_copies_is_said(home: Path, folder: str):
    states = home / "river.example.org" / "run" / folder
    states.mkdir(parents=True)
    (states / "0.0.safetensors").touch()
    assert any("may be the only copies" in line for line in left(RIVER))


def test_a_leave_that_was_interrupted_can_be_finished(home: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(leaving.shutil, "rmtree", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            left(RIVER)
    assert left(RIVER)[-1].startswith("Removed 3 folders")


def test_a_program_that_runs_keeps_its_installation_and_none_starts_while_it_changes(home: Path):
    made = home / "program-river-0a1b2c3d"
    assert installation(made / "venv") == made and installation(home / "texts" / "venv") is None
    with (made / LOCK).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="being upgraded or removed"):
            keep_installation(made)
    peer = subprocess.Popen(
        [sys.executable, "-c", PEER, str(made)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert peer.stdout and peer.stdout.readline() == "kept\n"
        with pytest.raises(SahajError, match="a peer runs there"):
            left(RIVER)
    finally:
        peer.communicate("\n")
    left(RIVER)


def test_a_peer_finds_its_place_where_the_variable_says_or_the_program_is(home: Path, monkeypatch: pytest.MonkeyPatch):
    assert default_folder("https://new.example.org") == home / "new.example.org"
    monkeypatch.delenv(HOME)
    monkeypatch.setattr(peer_folder, "installation", lambda: home / "program-river-0a1b2c3d")
    assert default_folder("https://new.example.org") == home / "new.example.org"


def test_the_command_asks_and_wants_one_of_link_and_all(home: Path):
    def sahaj(*arguments: str, answer: str = "") -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "app.cli", "leave", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, input=answer)

    assert sahaj().returncode == sahaj(RIVER, "--all").returncode == 1
    nobody = sahaj("river.example.org")
    assert nobody.returncode == 1 and "sahaj: nothing was removed; --yes removes it" in nobody.stderr
    assert sahaj("river.example.org/", answer="y\n").returncode == 0
    assert sahaj("--all", "--yes").returncode == 0
    assert names(home) == {"texts", "note.txt", "river.example.org-3"}
