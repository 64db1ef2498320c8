"""Verifies the run file and the tokenizer that the coordinator hands out, and writes them to disk.

A manifest comes from outside. It decides what is trained, but not what is read or written on this machine: file names
with a path in them, huge files, files of unknown kinds, and local text are refused.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from app.join.problems import JoinProblem, ProblemKind, one_line
from swarm.access.join_messages import TOKENIZER_SUFFIXES, Manifest, TokenizerFile
from swarm.errors import DataError, RunFileError
from swarm.files import lookup_errors, remove_file, remove_partials, storage_errors, write_file
from swarm.language import _
from swarm.run_file import DataSource, RunFile, load_run, parse_run
from swarm.run_file.strict_yaml import read_yaml
from swarm.run_file.validation_messages import shown

RUN_FILE, TOKENIZER = "run.yaml", "tokenizer"
LONGEST_RUN_FILE = 256 * 1024  # characters
DEEPEST = 16  # sections and lists within each other
LARGEST_FILE = 64 << 20  # bytes; a tokenizer of a million words is smaller
MOST_FILES = 16
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
SHA256 = re.compile(r"[0-9a-f]{64}")
FINGERPRINT = re.compile(r"[0-9a-f]{8,64}")
HUB_DATASET = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")

Fetch = Callable[[str, int], bytes]


def read_manifest(
    manifest: Manifest, *, data: Path | None = None, trusted: bool = False, reads_text: bool = True
) -> RunFile:
    """The checked run of a manifest, with the training text of this machine if `data` is given; nothing is written.

    Args:
        data: text of this machine to train on, in place of the run's.
        reads_text: whether this peer reads the run's text; if not, it does not matter where that is.
        trusted: the coordinator is on this machine, so the run may name local text by absolute paths.

    Raises:
        JoinProblem: the manifest cannot be used.
    """
    _check_tokenizer(manifest)
    if not FINGERPRINT.fullmatch(manifest.fingerprint):
        raise _unusable(f"{shown(manifest.fingerprint)} is not a fingerprint")
    run = _parse(manifest.run, Path(RUN_FILE))
    if data is not None:
        sources = [_own_text(data, run.data.train[0].text_column)]
    else:
        sources = run.data.train
        for source in sources if reads_text else ():
            _check_source(source, trusted=trusted)
    # a trainer does not evaluate: what is held out stays with the organizer
    text = run.data.model_copy(update={"train": sources, "validation": []})
    return run.model_copy(update={"data": text})


def write_manifest(manifest: Manifest, run: RunFile, folder: Path, fetch: Fetch) -> RunFile:
    """Write the tokenizer and the run file of `read_manifest` into `folder`; files that are there already stay.

    Args:
        fetch: downloads a tokenizer file by name, of at most so many bytes.

    Raises:
        JoinProblem: a file is not what the manifest announces, or the coordinator does not answer.
        StorageError: a file cannot be written or removed.
    """
    tokenizer = (folder / TOKENIZER).absolute()
    with storage_errors(tokenizer):
        if tokenizer.is_dir():
            remove_partials(tokenizer)
            _remove_others(tokenizer, {file.name for file in _needed(manifest)})
    for file in _needed(manifest):
        if not _is_there(tokenizer / file.name, file):
            write_file(tokenizer / file.name, _fetch_verified(file, fetch))
    content = run.model_dump(mode="json")
    content["tokenizer"]["path"] = str(tokenizer)
    path = folder / RUN_FILE
    write_file(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return load_run(path)


def folder_name(run: RunFile, manifest: Manifest) -> str:
    """The name of a run's folder; different models of one name do not mix."""
    return f"{run.name}-{manifest.fingerprint}"


def _parse(text: str, path: Path) -> RunFile:
    if len(text) > LONGEST_RUN_FILE:
        raise _unusable(f"its run file has {len(text):,} characters; at most {LONGEST_RUN_FILE:,} are allowed")
    try:
        _check_yaml(text)
        content: Any = read_yaml(text)
    except (ValueError, yaml.YAMLError) as error:
        raise _unusable(f"its run file is not valid YAML: {one_line(str(error))}") from None
    if not isinstance(content, dict):
        raise _unusable("its run file is not a mapping of keys to values")
    try:
        return parse_run(content, path)
    except RunFileError as error:
        raise _unusable(f"its {one_line(str(error))}; perhaps it needs another version of this program") from None


def _check_yaml(text: str) -> None:
    """Refuse aliases, which can expand to gigabytes, and deep nesting.

    Raises:
        JoinProblem: there is such a thing in it.
        yaml.YAMLError: it is not YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _unusable("its run file has YAML aliases; write the values out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise _unusable("its run file is nested too deeply")


def _check_tokenizer(manifest: Manifest) -> None:
    files = manifest.tokenizer
    if not files or len(files) > MOST_FILES or len({file.name.lower() for file in files}) < len(files):
        raise _unusable(f"its tokenizer must be 1 to {MOST_FILES} files of different names, got {len(files)}")
    for file in files:
        if not PLAIN_NAME.fullmatch(file.name):
            raise _unusable(f"{shown(file.name)} is not the name of a tokenizer file")
        if not 0 < file.size <= LARGEST_FILE:
            raise _unusable(f"{file.name} has {file.size:,} bytes; 1 to {LARGEST_FILE:,} are allowed")
        if not SHA256.fullmatch(file.sha256):
            raise _unusable(f"{file.name} has no SHA-256")


def _needed(manifest: Manifest) -> list[TokenizerFile]:
    return [file for file in manifest.tokenizer if file.name.endswith(TOKENIZER_SUFFIXES)]


def _check_source(source: DataSource, *, trusted: bool) -> None:
    if source.path is not None:
        if not trusted:
            raise _unusable(f"it would read {shown(source.path)} on this machine", own_text=True)
        if not Path(source.path).is_absolute():
            raise _unusable(f"{shown(source.path)} is not an absolute path", own_text=True)
    elif not HUB_DATASET.fullmatch(source.name) or ".." in source.name:
        raise _unusable(f"{shown(source.name)} is not a dataset on the Hub", own_text=True)
    # the datasets library takes the name of an existing path for a folder of this machine
    elif Path(source.name).exists():
        told = _("{name}: a folder of this name is in {folder}, and would be read instead; start from another folder")
        raise JoinProblem(ProblemKind.MANIFEST, told.format(name=source.name, folder=Path.cwd()))


def check_own_text(data: Path) -> None:
    """See that the text of this machine is there.

    Raises:
        JoinProblem: it is not.
        DataError: it cannot be looked at.
    """
    with lookup_errors(f"--data {data}", DataError):
        is_there = data.exists()
    if not is_there:
        raise JoinProblem(ProblemKind.MANIFEST, _("{path}: no such file or folder; correct --data").format(path=data))


def _own_text(data: Path, text_column: str) -> DataSource:
    check_own_text(data)
    return DataSource(path=str(data.absolute()), text_column=text_column)


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove files that an earlier tokenizer has left: they would be loaded with this one."""
    for path in folder.iterdir():
        if path.is_file() and path.name not in names:
            remove_file(path)


def _is_there(path: Path, file: TokenizerFile) -> bool:
    try:
        return path.stat().st_size == file.size and _digest(path.read_bytes()) == file.sha256
    except OSError:
        return False


def _fetch_verified(file: TokenizerFile, fetch: Fetch) -> bytes:
    content = fetch(file.name, file.size)
    if len(content) != file.size:
        raise _unusable(f"{file.name} has {len(content):,} bytes and not the {file.size:,} announced")
    if _digest(content) != file.sha256:
        raise _unusable(f"{file.name} is not the announced file (its SHA-256 differs)")
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _unusable(reason: str, *, own_text: bool = False) -> JoinProblem:
    """`own_text`: with text of their own a volunteer can join all the same."""
    told = (
        _("the coordinator's manifest cannot be used ({reason}); give text of your own with --data PATH")
        if own_text
        else _("the coordinator's manifest cannot be used ({reason}); tell the organizer")
    )
    return JoinProblem(ProblemKind.MANIFEST, told.format(reason=reason))
