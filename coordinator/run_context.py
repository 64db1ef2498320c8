"""What the parts of a coordinator share: the run with its state folder and ledger, and what serving it needs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.access.decisions import NoticeStore
from coordinator.access.hub_identity import MOST_VERIFIED, HubUser, Remembered
from coordinator.http.request_limits import JoinLimits
from coordinator.ledger.ledger import Ledger
from coordinator.state_folder import CHECKPOINTS
from experts.directory.records import Listed
from swarm import clock
from swarm.access.passes import Authority
from swarm.run_file import RunFile
from swarm.run_file.fingerprint import Fingerprint


@dataclass(frozen=True)
class RunContext:
    """The run that this coordinator leads. Threads may share it."""

    run: RunFile
    fingerprint: Fingerprint
    folder: Path  # of the coordinator's state
    ledger: Ledger
    say: Callable[[str], None]  # tells the organizer one line

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.folder / CHECKPOINTS


@dataclass(frozen=True)
class RunStatus:
    """Where the run stands at this moment."""

    step: int  # global steps taken
    samples_gathered: int  # of all peers, towards the next global step
    stepped_at: float  # unix seconds: when the newest global step was taken
    problem: str = ""  # why the coordinator does not work; empty if it does
    notebook_at_hub: str = ""  # URL of the notebook of the newest release; empty if it has none


@dataclass(frozen=True)
class ServiceContext(RunContext):
    """What the HTTP service and the renewal of passes work with. Several threads call its functions."""

    tokenizer_folder: Path
    authority: Authority
    notices: NoticeStore
    admin_key: str
    status: Callable[[], RunStatus]
    addresses: Callable[[], list[str]]  # multiaddresses of the coordinator and some other peers
    order_rollback: Callable[[int], None]  # to the checkpoint of a global step
    hosts: Callable[[], list[Listed]] = list  # of experts, that are listed now
    limits: JoinLimits = field(default_factory=JoinLimits)
    # by peer id, so that a pass can be renewed without a token; in memory only, so since the coordinator's start
    verified_users: Remembered[HubUser] = field(default_factory=lambda: Remembered(MOST_VERIFIED, clock.now))
