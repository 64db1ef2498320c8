"""A Dockerfile, read as far as ours goes, and its stages carried out without a container engine.

Each stage gets a root of its own: an overlay over this machine's, which stays as it is, in a mount namespace that
goes with the process.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

INSTRUCTION = re.compile(r"([A-Z]+)\s+(.*)", re.DOTALL)
ENTER = """
mount -t overlay overlay -o "lowerdir=/,upperdir=$STAGE/upper,workdir=$STAGE/work" "$STAGE/root"
mount --bind "$PYTHON" "$STAGE/root/usr/local" # where the base image has its own
for system in dev proc sys; do mount --rbind "/$system" "$STAGE/root/$system"; done
exec chroot "$STAGE/root" "$@"
"""


@dataclass
class Stage:
    """One `FROM` and what follows it."""

    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all_of(self, instruction: str) -> list[str]:
        """What follows each of these instructions."""
        return [text for kind, text in self.instructions if kind == instruction]


def read_dockerfile(path: Path) -> list[Stage]:
    """The stages of a Dockerfile; what stands before the first one is a default of all of them."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for text in "\n".join(lines).replace("\\\n", " ").splitlines():
        found = INSTRUCTION.fullmatch(text)
        assert found, text
        kind, rest = found.groups()
        if kind == "FROM":
            name = rest.split(" AS ")[1] if " AS " in rest else ""
            stages.append(Stage(name))
        elif stages:
            stages[-1].instructions.append((kind, rest))
    return stages


def context(root: Path) -> Iterator[Path]:
    """The files that the engine would be sent, by .dockerignore of the form that ours has: all but what it names."""
    rules = [line.strip() for line in (root / ".dockerignore").read_text().splitlines() if line.strip()]
    assert "*" in rules, "nothing is sent but what is named"
    never = {rule.removeprefix("**/") for rule in rules if rule.startswith("**/")}
    for rule in rules:
        if rule.startswith("!"):
            path = root / rule[1:]
            for file in [path] if path.is_file() else sorted(path.rglob("*")):
                if file.is_file() and not never & set(file.parts):
                    yield file.relative_to(root)


class Build:
    """Stages that are carried out below `folder`, with these build arguments and this environment besides."""

    def __init__(self, folder: Path, root: Path, arguments: Mapping[str, str], environment: Mapping[str, str]):
        self._folder, self._root = folder, root
        self._arguments, self._environment = arguments, environment

    def run(self, stage: Stage) -> None:
        """Carry out a stage.

        Raises:
            AssertionError: a command of it failed, with what it said.
        """
        for part in ("upper", "work", "root"):
            (self._of(stage) / part).mkdir(parents=True)
        _begin_etc(self._of(stage) / "upper" / "etc")
        given = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        for kind, text in stage.instructions:
            if kind == "ARG":
                name, _, default = text.partition("=")
                given[name] = self._arguments.get(name, default)
            elif kind == "ENV":
                for setting in shlex.split(text):
                    name, _, value = setting.partition("=")
                    given[name] = re.sub(r"\$(\w+)", lambda found: given[found.group(1)], value)
            elif kind == "COPY":
                self._copy(stage, shlex.split(text))
            elif kind == "RUN":
                done = self.command(stage, given, "sh", "-c", text)
                assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"

    def command(self, stage: Stage, given: Mapping[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
        """What a command in a stage's root says, with this environment and no other."""
        host = {"LD_LIBRARY_PATH": "/usr/local/lib"}  # this machine's Python lies elsewhere, and looks there
        settings = [f"{name}={value}" for name, value in {**host, **self._environment, **given}.items()]
        enter = ["unshare", "--mount", "bash", "-ec", ENTER, "enter", "env", "-i", *settings, *command]
        here = os.environ | {"STAGE": str(self._of(stage)), "PYTHON": sys.base_prefix}
        return subprocess.run(enter, env=here, check=False, capture_output=True, text=True, timeout=900)

    def _copy(self, stage: Stage, words: list[str]) -> None:
        *options, source, target = words
        inside = self._of(stage) / "upper" / target.lstrip("/")
        if options:
            (other,) = (option.removeprefix("--from=") for option in options)
            shutil.copytree(self._folder / other / "upper" / source.lstrip("/"), inside, symlinks=True)
            return
        for file in context(self._root):
            if source in (".", str(file)):
                (inside / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self._root / file, inside / file)

    def _of(self, stage: Stage) -> Path:
        return self._folder / (stage.name or "final")


def _begin_etc(etc: Path) -> None:
    """As engines do: the accounts of a base image, without whoever else has one here, and this machine's network."""
    etc.mkdir()
    for file in ("resolv.conf", "hosts"):
        shutil.copyfile(Path("/etc", file), etc / file)
    for file in ("passwd", "group"):
        lines = Path("/etc", file).read_text().splitlines(keepends=True)
        (etc / file).write_text("".join(line for line in lines if not 1000 <= int(line.split(":")[2]) < 60000))
