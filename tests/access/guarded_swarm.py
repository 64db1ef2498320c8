"""A guarded swarm that trains, attackers in processes of their own, and whether the swarm minds them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from app.demo.peers import Peer
from swarm.run_file.fingerprint import fingerprint
from tests.access.attackers.attacker import FAILED
from tests.support.small_swarm import NAME, SmallSwarm, newest_step_said, text_of
from tests.support.waiting import PATIENCE
from tokenizer.loading import load_tokenizer, tokenizer_digest

ROOT = Path(__file__).parent.parent.parent
TRAINERS = ("asha", "bela")
SETTLED = 2  # global steps of both trainers, after which attacks begin
RELOADED = re.compile(r"Others were ahead: loaded the state")  # what a trainer says
FAILURES = 4  # of averaging, of both trainers, that a case may see: a busy machine loses a round now and then


@dataclass(frozen=True)
class Health:
    """What an attack must not change for the worse."""

    failures: int
    reloads: int


class GuardedSwarm(SmallSwarm):
    """A run that is open to everybody, with two trainers that joined by its link."""

    def __init__(self, folder: Path, corpus: Path, tokenizer: Path, *, pass_lifetime: float = 3600.0, **settings: Any):
        access: dict[str, object] = {"open": True, "pass_lifetime": pass_lifetime}
        super().__init__(folder, corpus, tokenizer, access=access, **settings)
        self._fingerprint = fingerprint(self.run, tokenizer_digest(load_tokenizer(self.run))).digest
        self._attackers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Wait until both trainers have averaged."""
        self.coordinator()
        for name in TRAINERS:
            self.trainer(name)
        both = len(TRAINERS)
        self.wait(lambda: sum(one.peers == both for one in self.steps()) >= SETTLED, "global steps of both trainers")

    def done(self) -> int:
        """Global steps in the ledger, but for those that only an attacker speaks of."""
        taken = newest_step_said(self.peers[0])
        return max((one.step for one in self.steps() if one.step <= taken), default=-1) + 1

    def peer_ids(self) -> list[str]:
        """The coordinator's and those of the trainers that were started."""
        present = {one.user: one.peer_id for one in self.ledger.sessions() if one.present}
        trainers = [peer.name for peer in self.peers if peer.name in TRAINERS]
        return [self.address.rsplit("/", 1)[1], *(present[f"~{name}"] for name in trainers)]

    def attack(self, *cases: str, meanwhile: Callable[[], None] | None = None, **settings: Any) -> "Attack":
        """Run attacks at the same time, to their end; each is given the settings."""
        with self.attacking(*cases, **settings) as attack:
            while attack.process.poll() is None:
                assert time.monotonic() < attack.deadline, f"no end of the attacks {cases}:\n{attack.words()}"
                if meanwhile:
                    meanwhile()
                time.sleep(0.2)
        assert attack.process.returncode == 0, attack.words()
        return attack

    @contextlib.contextmanager
    def attacking(self, *cases: str, **settings: Any) -> Iterator["Attack"]:
        """Start attackers; all their processes are killed when the block ends."""
        folder = self.folder / "attackers" / str(len(self._attackers))
        for case in cases:
            (folder / case).mkdir(parents=True)
        scene = {
            "folder": str(folder),
            "run": NAME,
            "run_file": str(self.run_file),
            "url": self.url,
            "address": self.address,
            "peers": self.peer_ids(),
            "fingerprint": self._fingerprint,
            "authority": str(self.state / "authority.key"),
        }
        command = [sys.executable, "-W", "ignore", "-m", "tests.access.attackers.attacker", *cases, "--json"]
        with (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [*command, json.dumps(scene | {"settings": settings})],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": "1", "HIVEMIND_LOGLEVEL": "CRITICAL"},
                stdin=subprocess.DEVNULL,
                stderr=err,
                start_new_session=True,
            )
        self._attackers.append(process)
        try:
            yield Attack(process, folder, time.monotonic() + settings.get("seconds", 0.0) + PATIENCE)
        finally:
            end_session(process)

    @contextlib.contextmanager
    def unharmed(self, steps: int = 1) -> Iterator[None]:
        """The swarm trains on while and after the block runs: new steps, no reloads, hardly a failed round."""
        before = self.health()
        yield
        self.wait_for_step(self.done() + steps)
        after = self.health()
        assert after.reloads == before.reloads, f"trainers reload\n{self.last_words()}"
        assert after.failures - before.failures <= FAILURES, f"rounds fail\n{self.last_words()}"
        assert all(peer.process.poll() is None for peer in self.peers[: 1 + len(TRAINERS)]), self.last_words()
        for peer in self.peers:
            assert "Traceback" not in text_of(peer), text_of(peer)

    def health(self) -> Health:
        """As far as the peers tell."""
        return Health(
            failures=sum(
                one.averaging_failures
                for one in self.ledger.sessions()
                if one.user in {f"~{name}" for name in TRAINERS}
            ),
            reloads=sum(len(RELOADED.findall(text_of(peer))) for peer in self.peers[: 1 + len(TRAINERS)]),
        )

    def memory(self) -> dict[int, int]:
        """Resident bytes of each process of the swarm."""
        return {process.pid: process.memory_info().rss for peer in self.peers for process in processes_of(peer)}

    def kill_all(self) -> None:
        """Leave nothing behind."""
        with contextlib.ExitStack() as ending:
            ending.callback(super().kill_all)
            for process in self._attackers:
                ending.callback(end_session, process)


@dataclass(frozen=True)
class Attack:
    """Running attackers. `deadline` is in monotonic seconds."""

    process: subprocess.Popen[bytes]
    folder: Path
    deadline: float

    def told(self, case: str) -> list[dict[str, Any]]:
        """The lines that the attacker of this case has written."""
        out = self.folder / case / "out"
        return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []

    def begun(self, *cases: str) -> bool:
        """Whether the attackers of these cases have told something.

        Raises:
            AssertionError: one of the attackers has failed, with all that they have said.
        """
        assert not list(self.folder.glob(f"*/{FAILED}")), self.words()
        return all(map(self.told, cases))

    def got(self, case: str) -> dict[str, Any]:
        """What the attacker of this case told in the end."""
        return self.told(case)[-1]

    def words(self) -> str:
        """All that they have said, for people."""
        said = [*self.folder.glob("*/out"), *self.folder.glob("**/err")]
        return "\n".join(f"--- {path}\n{path.read_text()[-4000:]}" for path in sorted(said))


class Peak:
    """How much any process of the swarm has grown at most, in bytes."""

    def __init__(self, swarm: GuardedSwarm):
        self._swarm, self._before = swarm, swarm.memory()
        self.growth = 0

    def look(self) -> None:
        """Measure now."""
        for pid, size in self._swarm.memory().items():
            self.growth = max(self.growth, size - self._before.get(pid, size))


def processes_of(peer: Peer) -> list[psutil.Process]:
    """The living processes of a peer's session."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        with contextlib.suppress(ProcessLookupError, psutil.Error):
            if os.getsid(process.pid) == peer.process.pid and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)
