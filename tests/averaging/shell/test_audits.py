"""A coordinator sums chunks again: who has made a false mean is found, and nobody honest is named."""

import hashlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
from msgspec.structs import replace

from averaging.log.header import peer_of
from averaging.log.shares import LOUDEST
from averaging.protocol import credentials as signed
from averaging.protocol.actions import Average
from averaging.protocol.messages import Message, Piece, ShownAccount, ShownPiece
from averaging.reduce.gradient_codec import Compression
from averaging.reduce.reducer import EncodedMean
from averaging.shell.audit import Auditor, Comparison, Fault, Verdict
from averaging.shell.locked_machine import Machine
from averaging.shell.shell import Shell
from tests.averaging.shell.virtual.village import Village

NAMES = ("asha", "bela", "chand", "dipa", "esha")  # the first ones reduce


def a_village(folder: Path) -> tuple[Village, dict[str, Shell], list[Verdict]]:
    """Five trainers and a coordinator, whose audits are gathered."""
    village, found = Village(folder, robust="watch", target=600), list[Verdict]()
    coordinator = village.add("coordinator", begins=True)
    coordinator._audited = verdicts_to(found)
    shells = {name: village.add(name) for name in NAMES}
    for shell in shells.values():
        village.train(shell)
    return village, shells, found


def verdicts_to(found: list[Verdict]) -> Callable[[Verdict | Comparison], None]:
    return lambda one: found.append(one) if isinstance(one, Verdict) else None


def coordinator_of(village: Village) -> tuple[Shell, list[Comparison]]:
    """The first shell of a village, whose comparisons are gathered from now on."""
    coordinator, found = next(iter(village.shells.values())), list[Comparison]()
    coordinator._audited = lambda one: found.append(one) if isinstance(one, Comparison) else None
    return coordinator, found


def compared_in(one: Comparison) -> set[str]:
    """Names of the senders."""
    return {peer_of(each.session) for each in one.agreement}


def findings(found: list[Verdict]) -> set[tuple[str, Fault, bool]]:
    return {(peer_of(one.session), one.fault, one.is_proof) for verdict in found for one in verdict.findings}


async def test_where_nobody_lies_nobody_is_named(tmp_path: Path) -> None:
    village, _, found = a_village(tmp_path)
    await village.until(lambda: len(found) >= 8)
    assert not findings(found)
    assert all(len(verdict.agreement) == len(NAMES) for verdict in found)
    assert all(one.cosine > 0.0 and one.loudness < LOUDEST for verdict in found for one in verdict.agreement)


async def test_a_coordinator_compares_what_it_has_averaged_itself(tmp_path: Path) -> None:
    village, _, _ = a_village(tmp_path)
    coordinator, found = coordinator_of(village)
    await village.until(lambda: len(found) >= 8)
    me = coordinator.machine.me.session
    for one in found:
        assert any(part.reducer == me for part in one.header.parts)
        assert compared_in(one) == set(NAMES)
        assert all(each.cosine > 0.0 and 0.0 < each.loudness < LOUDEST for each in one.agreement)
        assert {user for _, user in one.users} == {*NAMES, "coordinator"}


async def test_what_is_sent_after_the_mean_is_not_compared(tmp_path: Path) -> None:
    """A liar would send noise first, and an honest piece then; or one that cannot be read."""
    village, _, _ = a_village(tmp_path)
    coordinator, found = coordinator_of(village)
    exchange = coordinator._exchange
    average, sent_late = exchange.average, 0

    async def then_receive(machine: Machine, action: Average, carry_out: Callable[[], None]) -> None:
        nonlocal sent_late
        await average(machine, action, carry_out)
        for sender in action.senders:
            for attempt in (action.attempt, action.attempt + 1):
                piece = Piece(action.plan.ballot, action.chunk, attempt)
                if content := exchange._pieces.of(sender).get(replace(piece, attempt=action.attempt)):
                    sent_late += exchange.takes(sender, piece, bytes(len(content)), 0.0)

    with patch.object(exchange, "average", then_receive):
        await village.until(lambda: len(found) >= 4)
    assert sent_late
    assert all(each.cosine > 0.0 for one in found for each in one.agreement)
    assert all(compared_in(one) == set(NAMES) for one in found)


@dataclass
class MadeUp:
    """Does things aside, and makes zeros of all means."""

    truly: Executor

    def submit(self, work: Callable[[], Any]) -> "Future[Any]":
        """See `concurrent.futures.Executor`."""

        def lie() -> Any:
            done = work()
            if isinstance(done, EncodedMean):
                return EncodedMean(done.encoded[:4] + bytes(len(done.encoded) - 4), done.excluded, done.loud)
            return done

        return self.truly.submit(lie)


async def test_a_reducer_that_makes_up_a_mean_is_proved_to_within_50_steps(tmp_path: Path) -> None:
    village, shells, found = a_village(tmp_path)
    exchange = shells["asha"]._exchange
    exchange._aside = MadeUp(exchange._aside)  # type: ignore[assignment]
    await village.until(lambda: ("asha", Fault.FALSE_MEAN, True) in findings(found))
    assert len(village.entries) <= 50
    (verdict,) = [one for one in found if one.findings]
    assert verdict.account and {peer_of(one) for one, _ in verdict.pieces} == set(NAMES)
    assert findings(found) == {("asha", Fault.FALSE_MEAN, True)}


async def test_a_sender_that_shows_another_piece_than_it_has_sent_is_proved_to(tmp_path: Path) -> None:
    village, shells, found = a_village(tmp_path)
    proofs, me = shells["asha"]._exchange.proofs, shells["asha"].machine.me.session

    def another(asked: ShownPiece | ShownAccount) -> bytes | None:
        kept = truth(asked)
        if kept is None or isinstance(asked, ShownAccount):
            return kept
        size = len(kept) - len(f"signed by {me}")
        piece = kept[: size - 1] + bytes([kept[size - 1] ^ 1])
        said = village_signed(asked, piece)
        return piece + shells["asha"]._locked.credentials.sign(said)

    def village_signed(asked: ShownPiece, piece: bytes) -> bytes:
        digest = hashlib.sha256(piece).hexdigest()
        return signed.piece(me, asked.instance, asked.ballot, asked.chunk, digest)

    truth = proofs.shown
    proofs.shown = another  # type: ignore[method-assign]
    await village.until(lambda: findings(found))
    assert findings(found) == {("asha", Fault.TWO_PIECES, True)}


@pytest.mark.parametrize("kind", [ShownPiece, ShownAccount])
async def test_one_that_shows_nothing_is_named_and_nothing_is_proved(tmp_path: Path, kind: type[Message]) -> None:
    village, _, found = a_village(tmp_path)
    village.spoil = lambda sender, message, payload: (
        b"nonsense" if isinstance(message, kind) and sender.startswith("asha.") else payload
    )
    await village.until(lambda: findings(found))
    fault = Fault.NO_PIECE if kind is ShownPiece else Fault.NO_ACCOUNT
    assert findings(found) == {("asha", fault, False)}


async def test_a_piece_with_a_false_signature_is_left_out(tmp_path: Path) -> None:
    village, _, found = a_village(tmp_path)
    village.spoil = lambda sender, message, payload: (
        payload[:-1] + b"?" if payload and isinstance(message, Piece) and sender.startswith("asha.") else payload
    )
    await village.until(lambda: len(found) >= 4)
    assert not findings(found)
    excluded = {peer_of(one.session) for entry in village.entries.values() for one in entry.header.exclusions}
    assert excluded == {"asha"}


@pytest.mark.parametrize("kind", ["none", "8bit", "float16"])
async def test_a_reducer_that_scales_a_loud_sender_down_makes_no_false_mean(tmp_path: Path, kind: Compression) -> None:
    village, found = Village(tmp_path, robust="enforce", target=900, compression=kind), list[Verdict]()
    village.add("coordinator", begins=True)._audited = verdicts_to(found)
    for number, name in enumerate(NAMES):
        village.train(village.add(name), tokens=100 + 30 * number)
    village.train(village.add("eve"), times=-10.0, tokens=300)
    await village.until(lambda: len(found) >= 10)
    assert not findings(found)
    assert any(part.loud for entry in village.entries.values() for part in entry.header.parts)


async def test_a_volunteer_that_convenes_has_nobody_proved_to_lie(tmp_path: Path) -> None:
    """It alone knows what it has told the reducer of weights; what was signed is no evidence then."""
    village, shells, found = a_village(tmp_path)
    exchange = shells["asha"]._exchange
    exchange._aside = MadeUp(exchange._aside)  # type: ignore[assignment]
    locked = village.shells[village.sessions[0]]._locked
    auditor = Auditor(locked)
    auditor._locked = Mock(**{"machine.me.session": "another.0"})
    judge = Auditor.judge
    with patch.object(Auditor, "judge", lambda self, *of: judge(auditor, *of)):
        await village.until(lambda: findings(found))
    assert ("asha", Fault.FALSE_MEAN, False) in findings(found)
    assert not any(verdict.account or verdict.pieces for verdict in found)
