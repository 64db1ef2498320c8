"""A manifest decides what is trained, and nothing else on this machine."""

import hashlib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from app.join.manifest import (
    LARGEST_FILE,
    LONGEST_RUN_FILE,
    TOKENIZER,
    check_own_text,
    folder_name,
    read_manifest,
    write_manifest,
)
from app.join.problems import ProblemKind
from swarm.access.join_messages import Manifest, TokenizerFile
from swarm.errors import DataError, StorageError
from swarm.language import VARIABLE
from tests.app.join.conftest import RUN
from tests.support.problems import raises_problem

FILES = {"tokenizer.json": b'{"model": 1}', "tokenizer_config.json": b"{}"}


def announced(files: dict[str, bytes] = FILES) -> list[TokenizerFile]:
    return [
        TokenizerFile(name=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        for name, content in files.items()
    ]


def manifest(run: str = RUN, **changes: Any) -> Manifest:
    values: dict[str, Any] = {"run": run, "fingerprint": "0123456789abcdef", "tokenizer": announced()} | changes
    return Manifest(**values)


class Served:
    """Hands out files, and counts."""

    def __init__(self, files: dict[str, bytes] = FILES):
        self.files, self.fetched = files, list[str]()

    def __call__(self, name: str, _size: int) -> bytes:
        self.fetched.append(name)
        return self.files[name]


def test_what_is_written_is_a_run_that_finds_its_tokenizer(tmp_path: Path):
    run = write_manifest(manifest(), read_manifest(manifest()), tmp_path, Served())
    folder = run.resolve(run.tokenizer.path)
    assert folder == tmp_path.resolve() / "tokenizer"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert run.data.validation == []
    assert run.data.train[0].hub == "owner/text"
    assert folder_name(run, manifest()) == "little-0123456789abcdef"


def test_only_what_is_absent_or_different_is_fetched(tmp_path: Path):
    write_manifest(manifest(), read_manifest(manifest()), tmp_path, Served())
    tokenizer = tmp_path / "tokenizer"
    (tokenizer / "tokenizer.json").write_bytes(b'{"model": 2}')
    (tokenizer / "added_tokens.json").write_bytes(b"{}")  # of another tokenizer
    served = Served()
    write_manifest(manifest(), read_manifest(manifest()), tmp_path, served)
    assert served.fetched == ["tokenizer.json"]
    assert sorted(path.name for path in tokenizer.iterdir()) == sorted(FILES)


def test_a_tokenizer_folder_that_cannot_be_changed_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_manifest(manifest(), read_manifest(manifest()), tmp_path, Served())
    (tmp_path / TOKENIZER / "of-an-earlier-one.json").touch()
    monkeypatch.setattr(Path, "unlink", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(StorageError, match=r"/tokenizer/.*: could not be removed \(Permission denied\); remove it"):
        write_manifest(manifest(), read_manifest(manifest()), tmp_path, Served())


def test_programs_and_other_files_are_not_fetched(tmp_path: Path):
    files = {**FILES, "code.py": b"print()", "weights.pkl": b"x", "README.md": b"# Read"}
    served = Served(files)
    write_manifest(manifest(tokenizer=announced(files)), read_manifest(manifest()), tmp_path, served)
    assert served.fetched == list(FILES)


@pytest.mark.parametrize("content", [b'{"model": 3}', b"", b"longer than what was announced"])
def test_a_file_that_is_not_the_announced_one_is_not_kept(tmp_path: Path, content: bytes):
    with raises_problem(ProblemKind.MANIFEST, match=r"tokenizer\.json"):
        write_manifest(manifest(), read_manifest(manifest()), tmp_path, Served({**FILES, "tokenizer.json": content}))
    assert not (tmp_path / "tokenizer" / "tokenizer.json").exists()


@pytest.mark.parametrize(
    "name",
    [
        "../identity.key",
        "../../.bashrc",
        "/etc/passwd",
        "a/b.json",
        "a\\b.json",
        "..",
        "",
        ".hidden.json",
        "a\x00.json",
        "x" * 200 + ".json",
        "tokenizer.json\n",
    ],
)
def test_odd_file_names_are_refused(name: str):
    with raises_problem(ProblemKind.MANIFEST) as problem:
        read_manifest(manifest(tokenizer=[TokenizerFile(name=name, sha256="0" * 64, size=1)]))
    assert str(problem.value).isprintable()
    assert problem.value.exit_status == 38


@pytest.mark.parametrize(
    "files",
    [
        [],
        [TokenizerFile(name="a.json", sha256="0" * 64, size=LARGEST_FILE + 1)],
        [TokenizerFile(name="a.json", sha256="0" * 64, size=-1)],
        [TokenizerFile(name="a.json", sha256="../../x", size=1)],
        [TokenizerFile(name="a.json", sha256="0" * 64, size=1), TokenizerFile(name="A.json", sha256="0" * 64, size=1)],
        [TokenizerFile(name=f"{number}.json", sha256="0" * 64, size=1) for number in range(100)],
    ],
)
def test_odd_files_are_refused(files: list[TokenizerFile]):
    with raises_problem(ProblemKind.MANIFEST):
        read_manifest(manifest(tokenizer=files))


BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{', '.join([f'*{chr(97 + level)}'] * 9)}]\n" for level in range(20)
)


@pytest.mark.parametrize(
    "run",
    [
        "",
        "- 1",
        "name: [",
        "{" * 50_000,
        BOMB,
        "name: little\n" + "#" * LONGEST_RUN_FILE,
        RUN.replace("little", "../../up"),
        RUN.replace("little", "!!python/object/apply:os.system [ls]"),
        RUN + "surprise: 1\n",
        RUN.replace("description: A run for tests.", "name: again"),
        RUN + "model: {hidden_size: 1.5}\n",
    ],
    ids=lambda run: run[:12],
)
def test_odd_run_files_are_refused_in_one_line(run: str):
    with raises_problem(ProblemKind.MANIFEST) as problem:
        read_manifest(manifest(run))
    assert str(problem.value).isprintable()


def test_a_folder_of_the_datasets_name_is_no_fault_of_the_organizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "text").mkdir(parents=True)
    with raises_problem(ProblemKind.MANIFEST) as problem:
        read_manifest(manifest())
    assert str(problem.value) == (
        f"owner/text: a folder of this name is in {tmp_path}, and would be read instead; start from another folder"
    )


def test_the_way_out_of_an_unusable_manifest_is_in_the_persons_language(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "bn")
    with raises_problem(ProblemKind.MANIFEST) as problem:
        read_manifest(manifest("- 1"))
    assert str(problem.value).startswith("সমন্বয়কের")
    assert str(problem.value).endswith(" (its run file is not a mapping of keys to values); আয়োজককে জানান")


def test_own_text_in_a_folder_of_somebody_else_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "stat", Mock(side_effect=PermissionError(13, "Permission denied")))
    with pytest.raises(DataError, match=r"--data /theirs/text: cannot be read \(Permission denied\)"):
        check_own_text(Path("/theirs/text"))


@pytest.mark.parametrize("fingerprint", ["", "../up", "0123", "0123456789abcdef/.."])
def test_odd_fingerprints_are_refused(fingerprint: str):
    with raises_problem(ProblemKind.MANIFEST):
        read_manifest(manifest(fingerprint=fingerprint))


def with_source(**source: str) -> str:
    content = yaml.safe_load(RUN)
    content["data"]["train"] = [source]
    return yaml.safe_dump(content)


@pytest.mark.parametrize("path", ["/etc", "~/secrets", "text.jsonl"])
def test_local_text_is_read_only_for_a_coordinator_on_this_machine(path: str, tmp_path: Path):
    foreign = manifest(with_source(path=path))
    with raises_problem(ProblemKind.MANIFEST, match="--data"):
        read_manifest(foreign)
    own = tmp_path / "mine.txt"
    own.write_text("text")
    assert [source.path for source in read_manifest(foreign, data=own).data.train] == [str(own)]
    if Path(path).is_absolute():
        assert read_manifest(foreign, trusted=True).data.train[0].path == path
    else:
        with raises_problem(ProblemKind.MANIFEST, match="absolute"):
            read_manifest(foreign, trusted=True)


@pytest.mark.parametrize(
    "hub", ["/etc", "../up", "owner/../..", "~/x", ".", "hf://owner/x", "https://x.org/y", "tests"]
)
def test_a_hub_name_cannot_stand_for_a_local_folder(hub: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "tests").mkdir()
    monkeypatch.chdir(tmp_path)
    with raises_problem(ProblemKind.MANIFEST):
        read_manifest(manifest(with_source(hub=hub)))


def test_own_text_has_to_exist(tmp_path: Path):
    with raises_problem(ProblemKind.MANIFEST, match="correct --data"):
        read_manifest(manifest(), data=tmp_path / "absent")
