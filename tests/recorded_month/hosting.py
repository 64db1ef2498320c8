"""Hosts of experts beside the recorded month, and what they are credited."""

import time

from hivemind.p2p import PeerID

from coordinator.ledger.ingest import Contribution, SessionReport
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.recorder import serving_bound
from experts.directory.assignment import Holdings
from experts.directory.records import Listed
from experts.grid import all_uids
from swarm.run_file import ExpertsSection, RunFile

GRID = (4, 4)
USERS = ("hema", "~Kavi of the <b>long line</b>", "leela")
TOKENS = 1_234_567  # that the first host has served
SAMPLES = 20_000  # that the trainer brought who says so
LOSS, LOSS_WITH_EXPERTS = 2.345, 2.295


def with_experts(run: RunFile) -> RunFile:
    """The same run, in which volunteers host sixteen experts."""
    return run.model_copy(update={"experts": ExpertsSection(grid=list(GRID), width=64, hidden=256)})


def hosts() -> list[Listed]:
    """Two hosts that serve seven experts each and copy those of the other, and a third that leaves."""
    uids, now = list(all_uids(GRID)), time.time()
    parts = dict.fromkeys(uids[:7], 1200), dict.fromkeys(uids[7:14], 900)
    copies = parts[1] | {uids[14]: 400}
    holdings = [
        Holdings(str(peer_of(0)), parts[0], copies),
        Holdings(str(peer_of(1)), parts[1], parts[0]),
        Holdings(str(peer_of(2)), {uids[14]: 410}, leaves=True),
    ]
    loads = (0.02, 0.75, 0.0)
    return [
        Listed(peer_of(at), user, one, load, now + 30)
        for at, (user, one, load) in enumerate(zip(USERS, holdings, loads, strict=True))
    ]


def peer_of(number: int) -> PeerID:
    return PeerID(b"\x12\x20" + bytes([number] * 32))


def write_credit(ledger: Ledger, run: RunFile, now: float) -> None:
    """A trainer tells what the first host has served; and an evaluation with experts and without."""

    def session(number: int, user: str, **more: object) -> SessionReport:
        return SessionReport(
            session_id=f"{number:032x}",
            user=user,
            peer_id=str(peer_of(number)),
            client_mode=False,
            started=now - 7200,
            last_seen=now,
            step=0,
            **more,  # type: ignore[arg-type]
        )

    brought = (Contribution("e" * 64, 1, SAMPLES, SAMPLES * run.data.max_length, 5.0),)
    reports = [
        session(0, USERS[0], device="host of experts, cpu (4 threads)", hosts_experts=True),
        session(9, "user-001", device="Tesla T4", contributions=brought, served={str(peer_of(0)): TOKENS}),
    ]
    ledger.record(reports, now, serving=serving_bound(run))
    newest = max(one.step for one in ledger.evaluations())
    ledger.record_evaluation(
        newest + 1, LOSS, sentence_order_loss=0.5, samples=64, loss_with_experts=LOSS_WITH_EXPERTS, now=now
    )
