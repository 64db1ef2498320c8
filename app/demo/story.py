"""The events of the demo, in order: peers start, one is killed in the middle of a step, another joins."""

import time
from pathlib import Path

from rich.console import Console

from app.demo.experts import HOSTS, holds_some, serves_some
from app.demo.peers import Peer, start_peer
from coordinator.checkpoints.checkpoint import newest_checkpoint
from coordinator.ledger.answers import StepSummary
from coordinator.ledger.ledger import Ledger
from coordinator.state_folder import CHECKPOINTS
from swarm.errors import SwarmError
from swarm.run_file import RunFile

NAMES = ("Asha", "Bela", "Chandra", "Devi", "Esha", "Firoz", "Gita", "Hari")
STARTED = 600.0  # seconds to the first global step: on a busy machine programs load for minutes
STALLED = 120.0  # seconds without a new global step after which something is wrong
SAVED = 600.0  # seconds from the last global step to its checkpoint, before which the model is evaluated
POLL_EVERY = 0.25  # seconds
LINES = 20  # about global steps
MICRO_BATCH = 16  # samples at a time: of 8 each costs a fifth more, and of 32 no less


class Story:
    """Plays the demo with real processes and reports it on the console."""

    def __init__(self, run: RunFile, out: Path, coordinator: Peer, ledger: Ledger, url: str, console: Console):
        self.trainers: list[Peer] = []
        self.hosts: list[Peer] = []  # of experts
        self._coordinator = coordinator
        self._run, self._out, self._ledger = run, out, ledger
        self._url, self._console = url, console
        self._began = time.monotonic()
        self._step, self._step_at = 0, time.monotonic()  # global steps that are told
        self._step_seconds = 10.0  # of the last global step; the first one is not known yet

    def begin_hosting(self, experts: int) -> None:
        """Start two hosts, each with room for all experts, and wait until both serve some.

        Raises:
            SwarmError: a host ended early, or does not serve.
        """
        for name in HOSTS:
            command = ["host-experts", self._url, "--name", name, "--state", str(self._out / "peers" / name.lower())]
            command += ["--experts", str(experts), "--listen", "/ip4/127.0.0.1/tcp/0"]
            self.hosts.append(start_peer(name, command, self._out / "logs" / f"{name.lower()}.log"))
        while not all(map(holds_some, self.hosts)):
            self._wait(POLL_EVERY)
        self._tell(f"{' and '.join(HOSTS)} host {experts} experts; each is the other's standby")
        self._step_at = time.monotonic()

    def play(self, trainers: int) -> None:
        """Play it all; returns when the last global step is saved and the trainers have left.

        Raises:
            SwarmError: a peer ended early, or no global step comes.
        """
        total = self._run.optimizer.total_steps
        for number in range(trainers):
            self._start(NAMES[number], client_mode=number == 1)
        self._tell(f"{trainers} trainers start; {self.trainers[1].name} is behind a firewall (client mode)")

        victim = self.trainers[trainers - 1]
        self._wait_for_step(max(2, total // 4))
        self._wait(self._step_seconds / 2)
        victim.kill()
        victim.fate = "killed in mid-step"
        self._tell(f"{victim.name}'s power plug is pulled in the middle of global step {self._step + 1}", "red")

        self._wait_for_step(max(3, total // 4 + 2))
        newcomer = self._start(NAMES[trainers], client_mode=False)
        newcomer.fate = "joined late, finished"
        self._tell(f"{newcomer.name} joins and takes over the state from the others", "green")

        if self.hosts:
            self._wait_for_step(max(4, total // 2))
            host = next(filter(serves_some, self.hosts), self.hosts[0])
            host.kill()
            host.fate = "killed in the middle"
            self._tell(f"{host.name}'s power plug is pulled; its experts are left out until the standby serves", "red")

        self._wait_for_step(total)
        self._tell("the last global step is done; the coordinator evaluates and saves")
        self._wait_for_checkpoint(total)
        for peer in self.trainers:
            if peer is not victim and peer.end(patience=STALLED) != 0:
                peer.fate = f"ended with an error: {peer.last_words()}"
        for host in self.hosts:
            if not host.fate.startswith("killed") and host.stop(patience=STALLED) != 0:
                host.fate = f"ended with an error: {host.last_words()}"

    def _start(self, name: str, *, client_mode: bool) -> Peer:
        # several trainers share the processor, so the size that each would find by trying depends on the others
        command = ["join", self._url, "--name", name, "--state", str(self._out / "peers" / name.lower())]
        command += ["--micro-batch", str(MICRO_BATCH), "--listen", "/ip4/127.0.0.1/tcp/0"]
        command += ["--on-battery", "--on-metered"]  # a demo on a laptop is to be seen, too
        command += ["--client-mode" if client_mode else "--no-client-mode"]
        log = self._out / "logs" / f"{name.lower()}.log"
        peer = start_peer(name, command, log, client_mode=client_mode)
        self.trainers.append(peer)
        return peer

    def _wait_for_step(self, step: int) -> None:
        while self._step < step:
            self._wait(POLL_EVERY)

    def _wait_for_checkpoint(self, step: int) -> None:
        while (newest := newest_checkpoint(self._out / "coordinator" / CHECKPOINTS)) is None or (
            newest.state.step < step
        ):
            if time.monotonic() - self._step_at > SAVED:
                raise SwarmError(
                    f"no checkpoint of step {step} {SAVED:.0f} s after it was done; see {self._coordinator.log}"
                )
            self._wait(POLL_EVERY)

    def _wait(self, seconds: float) -> None:
        """Let time pass, follow the global step, and notice when a peer or the swarm fails."""
        until = time.monotonic() + seconds
        while True:
            self._poll()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(POLL_EVERY, left))

    def _poll(self) -> None:
        """Read new global steps from the ledger, and check that every peer runs.

        Raises:
            SwarmError: a peer ended early, or no global step comes.
        """
        steps = self._ledger.steps(since=self._step)
        done = max((one.step for one in steps), default=-1) + 1  # the ledger counts global steps from 0
        now = time.monotonic()
        if done > self._step:
            self._step_seconds = (now - self._step_at) / (done - self._step)
            self._step, self._step_at = done, now
        for one in steps:
            if has_line(one.step + 1, self._run.optimizer.total_steps):
                self._tell(describe_step(one, self._run.optimizer.total_steps))
        for peer in (*self.trainers, *self.hosts):
            if peer.process.poll() not in (None, 0) and not peer.fate.startswith("killed"):
                raise SwarmError(f"{peer.name} ended early ({peer.last_words()}); see {peer.log}")
        if self._coordinator.process.poll() is not None:
            words = self._coordinator.last_words()
            raise SwarmError(f"the coordinator ended early ({words}); see {self._coordinator.log}")
        is_over = self._step >= self._run.optimizer.total_steps
        if not is_over and now - self._step_at > (patience := STALLED if self._step else STARTED):
            after = f"after step {self._step}" if self._step else "from the beginning"
            raise SwarmError(f"no global step for {patience:.0f} s {after}; see {self._out / 'logs'}")

    def _tell(self, text: str, style: str = "") -> None:
        self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/]  {text}", style=style, highlight=False)


def has_line(step: int, total: int) -> bool:
    """Whether a global step, counted from 1, has a line of its own: about `LINES` of them do, and the last one."""
    return step % max(1, total // LINES) == 0 or step == total


def describe_step(step: StepSummary, total: int) -> str:
    """One line about a global step."""
    loss = "" if step.loss is None else f"  loss {step.loss:.3f}"
    trainers = "1 trainer " if step.peers == 1 else f"{step.peers} trainers"
    return f"global step {step.step + 1:>3} of {total}: {step.samples:>5,} samples of {trainers}{loss}"
