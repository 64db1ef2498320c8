"""A swarm of real processes that is small enough for a test, and ways to wait for what happens in it."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import psutil

import averaging.transport.contacts_in_dht
from app.demo.peers import Peer, start_peer, wait_for_address
from coordinator.ledger.answers import StepSummary
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.state_folder import ADDRESSES, URL
from swarm.files import write_file
from swarm.run_file import dump_run, parse_run
from tests.support.forked import Forked, run_sahaj, start_function
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, wait_until

NAME = "small-run"
LOOPBACK = "127.0.0.1"
LOOK_EVERY = 0.1  # seconds
MICRO_BATCH = 64  # samples: some 50 ms; peers tell the swarm of every batch, and shorter ones would flood it
STEPS_DONE = re.compile(r"global step ([\d,]+) of")
TAKEN_OVER = re.compile(r"Loaded the state of global step (\d+)")
COUNTING = re.compile(r"(First sample counted)")
CONTRIBUTED = re.compile(r"^Thank you! You contributed ([\d,]+) samples", re.MULTILINE)
FRIGHTENING = re.compile(r"(Traceback|Error|Exception|failed|Aborted|Killed)")


class SmallSwarm:
    """A run in a folder of its own, with a coordinator and any number of trainers.

    `corpus` holds train.jsonl and validation.jsonl, `tokenizer` is the tokenizer's folder.
    """

    def __init__(
        self,
        folder: Path,
        corpus: Path,
        tokenizer: Path,
        *,
        target_batch_size: int = 8192,
        total_steps: int = 5000,
        access: dict[str, object] | None = None,
        release: dict[str, object] | None = None,
        averaging: dict[str, object] | None = None,
        coordinator: dict[str, object] | None = None,
        model: dict[str, object] | None = None,
        experts: dict[str, object] | None = None,
    ):
        self.folder, self.state, self.target = folder, folder / "state", target_batch_size
        self.run_file, self.text = folder / "run.yaml", corpus / "train.jsonl"
        self.peers: list[Peer] = []
        self.run_as: dict[str, Callable[[list[str]], None]] = {}  # by name: what to call with a command's arguments
        self.address = self.url = ""
        self.port = free_port()
        shutil.copytree(tokenizer, folder / "tokenizer")
        content = run_content(corpus, target_batch_size=target_batch_size, total_steps=total_steps)
        content["averaging"] = {**content["averaging"], **(averaging or {})}
        content["coordinator"] = {**content["coordinator"], **(coordinator or {})}
        given = {**content["model"], **(model or {})}
        content["model"] = {key: value for key, value in given.items() if value is not None}
        content["access"] = {"host": self.host("coordinator"), "port": 0} | (access or {"open": True})
        if release is not None:
            content["release"] = release
        if experts is not None:
            content["experts"] = experts
        self.run = parse_run(content, self.run_file)
        write_file(self.run_file, dump_run(self.run))
        self._ledger: Ledger | None = None

    def coordinator(self, *, by_command: bool = False, environment: Mapping[str, str] = MappingProxyType({})) -> Peer:
        """Start the coordinator, or start it again, and wait until it can be joined."""
        for told in (ADDRESSES, URL):
            (self.state / told).unlink(missing_ok=True)
        listen = f"/ip4/{self.host('coordinator')}/tcp/{self.port}"
        command = ["coordinator", self.run_file, "--state", self.state, "--listen", listen]
        peer = self._start("coordinator", command, by_command=by_command, environment=environment)
        self.address = wait_for_address(peer, self.state / ADDRESSES, PATIENCE)
        self.url = wait_for_address(peer, self.state / URL, PATIENCE)
        return peer

    def move_to(self, state: Path, port: int) -> None:
        """The coordinator's next start is in this state folder, and at this port."""
        self.state, self.port, self._ledger = state, port, None

    def trainer(
        self,
        name: str,
        *options: object,
        client_mode: bool = False,
        token: str = "",
        asks_for: str | None = None,
        by_command: bool = False,
        is_considerate: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Peer:
        """Start a trainer by the run's link, `by_command` as a shell would; returns at once. Its folder is its name's.

        It shows a Hub token, or else a name of its own choice, by default the peer's. One that is considerate rests on
        battery and on metered lines, as users' do.
        """
        host = self.host(name)
        command = ["join", self.url, "--state", self.folder / "peers" / name, "--micro-batch", MICRO_BATCH]
        command += ["--listen", f"/ip4/{host}/tcp/0", "--client-mode" if client_mode else "--no-client-mode"]
        command += [] if is_considerate else ["--on-battery", "--on-metered"]  # tests run on laptops, too
        command += ["--data", self.text] if host != LOOPBACK else []  # others do not read what is on our disk
        command += [*options, *([] if token else ["--name", asks_for or name])]
        environment = {"HF_TOKEN": token, **environment}
        return self._start(name, command, client_mode=client_mode, by_command=by_command, environment=environment)

    def host_experts(self, name: str, *options: object) -> Peer:
        """Start a host of experts by the run's link; returns at once. Its folder is its name's."""
        listen = f"/ip4/{self.host(name)}/tcp/0"
        command = ["host-experts", self.url, "--state", self.folder / "peers" / name, "--listen", listen]
        return self._start(name, [*command, *options, "--name", name])

    def _start(
        self,
        name: str,
        command: list[object],
        *,
        client_mode: bool = False,
        by_command: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Peer:
        log = self.folder / "logs" / f"{name}-{len(self.peers)}.log"
        if by_command:
            peer = start_peer(name, list(map(str, command)), log, client_mode=client_mode, environment=environment)
        else:
            forked = cast("subprocess.Popen[bytes]", self.fork(name, command, log, environment))
            peer = Peer(name, forked, log, client_mode)
        self.peers.append(peer)
        return peer

    def host(self, name: str) -> str:
        """The address of the machine on which a peer is; for others to change."""
        return LOOPBACK

    def fork(self, name: str, command: list[object], log: Path, environment: Mapping[str, str]) -> Forked:
        """Start `sahaj` with these arguments; for others to change."""
        run = self.run_as.get(name, run_closely)
        return start_function(run, list(map(str, command)), out=log, environment=environment)

    @property
    def ledger(self) -> Ledger:
        """The coordinator's ledger; it exists as soon as the coordinator can be joined."""
        if self._ledger is None:
            self._ledger = open_ledger(self.run.coordinator.ledger, self.state)
        return self._ledger

    def steps(self) -> list[StepSummary]:
        """The global steps in the ledger, which counts them from 0."""
        return self.ledger.steps()

    def done(self) -> int:
        """Global steps that are in the ledger."""
        return max((one.step for one in self.steps()), default=-1) + 1

    def wait_for_step(self, step: int) -> None:
        """Until the ledger knows of `step` finished global steps."""
        self.wait(lambda: self.done() >= step, f"global step {step} in the ledger")

    def wait(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Until the condition holds.

        Raises:
            AssertionError: it did not within `patience` seconds, with what the peers said last.
        """
        wait_until(condition, lambda: f"{what}:\n{self.last_words()}\n", patience, LOOK_EVERY)

    def last_words(self) -> str:
        """The end of what each peer said."""
        tails = []
        for peer in self.peers:
            lines = text_of(peer).splitlines()[-12:]
            tails.append("\n".join([f"--- {peer.log.name}, status {peer.process.poll()}", *lines]))
        return "\n".join(tails)

    def kill_all(self) -> None:
        """Leave nothing behind."""
        with contextlib.ExitStack() as ending:  # all of it is done, whatever goes wrong on the way
            if self._ledger is not None:
                ending.callback(self._ledger.close)
            for peer in self.peers:
                ending.callback(peer.kill)


def run_closely(arguments: list[str]) -> None:
    """Be `sahaj` where all peers are on one machine: they need not wait seconds until they find each other."""
    averaging.transport.contacts_in_dht.LOOK_EVERY = 1.0
    run_sahaj(arguments)


def run_content(corpus: Path, *, target_batch_size: int, total_steps: int) -> dict[str, Any]:
    """A run file whose global steps take seconds, with short waits: all peers are on one machine."""
    return {
        "name": NAME,
        "model": {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 128,
            "embedding_size": 32,
        },
        "tokenizer": {"path": "tokenizer", "vocab_size": 800},
        "data": {
            "train": [{"path": str(corpus / "train.jsonl")}],
            "validation": [{"path": str(corpus / "validation.jsonl")}],
            "validation_samples": 16,
            "max_length": 64,
            "shuffle_buffer": 100,
        },
        "optimizer": {"learning_rate": 1e-2, "warmup_steps": 2, "total_steps": total_steps},
        "averaging": {"target_batch_size": target_batch_size},
        "coordinator": {"evaluate_every": 100, "checkpoint_every": 1, "keep_checkpoints": 3},
    }


def text_of(peer: Peer) -> str:
    """All that a peer has said so far."""
    return peer.log.read_text(errors="replace")


def newest_step_said(peer: Peer) -> int:
    """The newest global step in a peer's log, 0 if it named none."""
    return max((int(step.replace(",", "")) for step in peer.said(STEPS_DONE)), default=0)


def living_processes(peer: Peer) -> list[str]:
    """Processes of the peer's session that run, its helpers included; they are in it for as long as they live."""
    living = []
    for process in psutil.process_iter(["pid", "name", "status"]):
        with contextlib.suppress(ProcessLookupError):
            same = os.getsid(process.pid) == peer.process.pid
            if same and process.info["status"] != psutil.STATUS_ZOMBIE:
                living.append(f"{process.pid} {process.info['name']}")
    return living


def signal_group(peer: Peer, number: signal.Signals) -> None:
    """Send a signal to a peer and all its helpers, as a terminal does."""
    os.killpg(peer.process.pid, number)
