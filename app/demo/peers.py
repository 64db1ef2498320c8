"""The demo's peers: real processes of `sahaj`, each in a process group of its own."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from swarm.errors import SwarmError
from swarm.language import SOURCE, VARIABLE
from swarm.leaving import end_helpers

OF_PEERS = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", VARIABLE: SOURCE}  # their logs are read here
FIRST_SAMPLE = re.compile(r"First sample counted ([\d.]+) s after the start")


@dataclass
class Peer:
    """One process of the demo, and how it ended."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path
    client_mode: bool = False
    fate: str = "finished"

    def said(self, pattern: re.Pattern[str]) -> list[str]:
        """The first group of each place in the peer's log where the pattern is found."""
        return [found.group(1) for found in pattern.finditer(self.log.read_text(errors="replace"))]

    def last_words(self) -> str:
        """The last line of its log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def kill(self) -> None:
        """Send SIGKILL to the process and all its helpers at once, like a power cut."""
        self.send_kill()
        self.process.wait()

    def send_kill(self) -> None:
        """Send it without waiting for the end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self, patience: float) -> int | None:
        """Send SIGINT; returns the exit status, or None if it had to be killed after `patience` seconds."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.end(patience)

    def end(self, patience: float) -> int | None:
        """Wait for it to end by itself; returns the exit status, or None if it had to be killed."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return None


_started: list[Peer] = []  # by this process


def start_peer(
    name: str,
    command: list[str],
    log: Path,
    *,
    client_mode: bool = False,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Peer:
    """Start `sahaj` with the arguments in `command`; its output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | OF_PEERS | dict(environment),
        )
    peer = Peer(name, process, log, client_mode)
    _started.append(peer)
    return peer


def kill_all() -> None:
    """As a power cut for all that this process has started; a signal that ends it does not cut that short."""
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in signals}
    for peer in _started:
        peer.send_kill()
    end_helpers()  # a signal may have interrupted the start of one
    for peer in _started:
        peer.process.wait()
    for number, handler in before.items():
        signal.signal(number, handler)


def wait_for_address(coordinator: Peer, file: Path, patience: float = 120.0) -> str:
    """The address at which the coordinator can be joined, once it says so.

    Raises:
        SwarmError: it ended or said nothing within `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if coordinator.process.poll() is not None:
            raise SwarmError(f"the coordinator ended early ({coordinator.last_words()}); see {coordinator.log}")
        with contextlib.suppress(FileNotFoundError):
            return file.read_text().split()[0]
        time.sleep(0.1)
    raise SwarmError(f"the coordinator did not start within {patience:.0f} s; see {coordinator.log}")
