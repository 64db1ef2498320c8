"""A run of 16 simulated peers in one process: real text, model, gradients, pieces, means and optimizer steps.

As in a run, the samples of users on probation fill no batch: while there are some, or one was shut out, a global step
takes longer, and all bring more to it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from averaging.log.header import Ballot, Header, HeaderKind, Member, Part
from averaging.log.shares import counted
from averaging.log.state import Layout
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.protocol.auditing import SHARE
from averaging.reduce.agreement import Agreement, agreements, on_average
from averaging.reduce.clipping import Robust, bounded
from averaging.reduce.gradient_codec import Compression, encode_piece
from averaging.reduce.gradient_vector import GradientVector
from averaging.reduce.grid import Grid
from averaging.reduce.reducer import average
from averaging.shell.replay import decode_update
from benchmarks.learning.learner import HeldOut
from benchmarks.poison.attacks import Attack, Scene, Vector
from coordinator.ledger.audits.opposing_gradients import Directions
from coordinator.ledger.audits.probation import Probation
from coordinator.ledger.audits.worth import Worth
from coordinator.ledger.rounds import LoudGradients
from corpus.documents import open_documents
from swarm.run_file import DataSource, RunFile
from tokenizer.loading import load_tokenizer
from trainer.data import Batch, BatchPrefetcher
from trainer.model import PretrainingModel

KIND: Compression = "8bit"
MICRO_BATCH = 128  # samples, at most
HONEST = (8, 8, 16, 16, 32, 32, 32, 64, 64, 64, 128, 128, 256, 512)  # samples in a step; and the next one, if needed
ONE_MORE = 64
PEERS = 16
REDUCERS = 4  # one of which is the coordinator
SPARE = 1.5  # times the batches of a run in which all are useful


@dataclass(frozen=True)
class Peer:
    """Its batches, one after the other; a liar's are what it computes honestly."""

    name: str
    lies: bool
    batches: tuple[Batch, ...]
    each: int  # batches in a global step to which all bring something useful

    @property
    def samples(self) -> int:
        """In such a step."""
        return self.each * self.batches[0].samples

    def between(self, begin: float, end: float) -> tuple[Batch, ...]:
        """What it computes from so many batches on to so many."""
        return tuple(self.batches[place % len(self.batches)] for place in range(int(begin), int(end)))


@dataclass
class Outcome:
    """Of one run."""

    loss: float  # held out, in nats
    weights: dict[str, int] = field(default_factory=dict)  # that each peer may have, over all steps and chunks
    lost: dict[str, float] = field(default_factory=dict)  # of it, for being loud or on probation
    flagged: set[str] = field(default_factory=set)  # peers of which the organizer is told
    doubted: dict[str, int] = field(default_factory=dict)  # on probation after so many global steps, first
    shut_out: dict[str, int] = field(default_factory=dict)  # after so many global steps

    def share_lost(self, names: Sequence[str]) -> float:
        """Of the weight of these peers."""
        return sum(self.lost.get(one, 0.0) for one in names) / sum(self.weights[one] for one in names)


def weights_with(share: float, attackers: int) -> tuple[list[int], int]:
    """Samples of the honest peers, and of each attacker, who together have that share of all."""
    honest = [*HONEST, *[ONE_MORE] * (PEERS - len(HONEST) - attackers)]
    return honest, 8 * round(share / (1 - share) * sum(honest) / attackers / 8)


def peer_with(run: RunFile, source: DataSource, name: str, samples: int, *, lies: bool, seed: int) -> Peer:
    """One that computes so many samples in each global step."""
    size = min(samples, MICRO_BATCH)
    each = -(-samples // size)
    documents = open_documents(run, [source], seed=seed, repeat=True)
    with BatchPrefetcher(documents, load_tokenizer(run), run, batch_size=size, seed=seed) as feed:
        batches = tuple(feed.next() for _ in range(int(SPARE * each * run.optimizer.total_steps)))
    return Peer(name, lies, batches, each)


class Course:
    """What the runs of one seed have in common."""

    def __init__(self, run: RunFile, model: PretrainingModel, held_out: HeldOut, seed: int):
        parameters = list(model.parameters())
        self.layout = Layout.of(model.named_parameters(), has_muon=run.optimizer.name == "muon")
        self.grid = Grid(self.layout.size)
        self._run, self._model, self._held_out, self._seed = run, model, held_out, seed
        self._parameters, self._vector = parameters, GradientVector(parameters)
        self._first = initial_state(self.layout, parameters).parameters

    def train(self, peers: Sequence[Peer], attack: Attack, robust: Robust) -> Outcome:
        """From the first state to the last global step."""
        random, lots = np.random.default_rng(self._seed), np.random.default_rng(self._seed)
        directions, worth, probation = Directions(), Worth(), Probation()
        state = initial_state(self.layout, self.layout.views(self._first))
        optimizer, outcome, watch = StateOptimizer(self.layout, self._run.optimizer), Outcome(math.nan), LoudGradients()
        wanted, computed = sum(peer.samples for peer in peers), dict.fromkeys((peer.name for peer in peers), 0.0)
        for step in range(self._run.optimizer.total_steps):
            self._load(state.parameters)
            doubted = probation.users if robust == "enforce" else frozenset()
            useful = [peer for peer in peers if peer.name not in doubted] or peers
            longer = wanted / sum(peer.samples for peer in useful)
            own, weights = {}, {}
            for peer in peers:
                falsify = attack.falsify if peer.lies else None
                before = computed[peer.name]
                computed[peer.name] += peer.each * longer
                batches = peer.between(before, computed[peer.name])
                if peer.lies and attack.claim > 1:
                    batches = tuple(_part(one, attack.claim) for one in batches)
                own[peer.name], masked = self._gradient([falsify(b, random) for b in batches] if falsify else batches)
                weights[peer.name] = masked * attack.claim if peer.lies else masked
            gradients = self._sent(peers, own, weights, attack, random)
            drawn = [int(lots.integers(self.grid.count))] if lots.random() < SHARE * self.grid.count else []
            own_part = self._own_part(int(lots.integers(REDUCERS)))
            looked_at = [drawn, own_part]
            update, part, (agreement, seen) = self._mean(gradients, weights, robust, outcome, looked_at, doubted)
            members = tuple(Member(name, name, (step,), weight, True) for name, weight in weights.items())
            header = Header("", step + 1, HeaderKind.UPDATE, "", Ballot(1, ""), members, (part,))
            outcome.flagged |= {flag.user for flag in watch.flags(header)}
            if robust != "off":
                users = {one: one for one in weights}
                doubts = probation.take_in(header, agreement, users)
                doubts += probation.take_in(header, seen, users, of_own_part=True)
                outcome.doubted = {one.session: step + 1 for one in doubts} | outcome.doubted
                against = directions.against(agreement)
                outcome.flagged |= {one.session for one in against}
                outcome.flagged |= {one.session for one in worth.less(agreement, weights)}
                if robust == "enforce":
                    outcome.shut_out |= {one.session: step + 1 for one in against if one.is_sure}
                    peers = [one for one in peers if one.name not in outcome.shut_out]
            state = optimizer.step(state, update)
        self._load(state.parameters)
        outcome.loss = self._held_out.loss(self._model)
        return outcome

    def _own_part(self, place: int) -> range:
        """The chunks of the coordinator's part, which is one of `REDUCERS` equal ones, at this place among them."""
        return range(self.grid.count * place // REDUCERS, self.grid.count * (place + 1) // REDUCERS)

    def _load(self, vector: torch.Tensor) -> None:
        with torch.no_grad():
            for parameter, value in zip(self._parameters, self.layout.views(vector), strict=True):
                parameter.copy_(value)

    def _gradient(self, batches: Sequence[Batch]) -> tuple[Vector, int]:
        total, masked = torch.zeros(self.layout.size), 0
        for batch in batches:
            self._model.zero_grad()
            self._model(batch).loss.backward()
            total += self._vector.times(batch.masked)
            masked += batch.masked
        return (total / masked).numpy(), masked

    @staticmethod
    def _sent(
        peers: Sequence[Peer],
        own: Mapping[str, Vector],
        weights: Mapping[str, int],
        attack: Attack,
        random: np.random.Generator,
    ) -> dict[str, Vector]:
        liars = [peer.name for peer in peers if peer.lies]
        honest = [peer.name for peer in peers if not peer.lies]
        sent = {name: own[name] for name in honest}
        for name in liars:
            others = [own[one] for one in honest]
            scene = Scene(own[name], others, [weights[one] for one in honest], weights[name], len(liars), random)
            sent[name] = attack.send(scene)
        return sent

    def _mean(
        self,
        gradients: Mapping[str, Vector],
        weights: Mapping[str, int],
        robust: Robust,
        outcome: Outcome,
        looked_at: Sequence[Sequence[int]],
        on_probation: frozenset[str],
    ) -> tuple[torch.Tensor, Part, list[tuple[Agreement, ...]]]:
        chunks, plan = [], sorted(gradients)
        users = {name: name for name in plan}
        brought = [weights[name] for name in plan]
        usual, kept = counted(plan, brought), counted(plan, brought, on_probation)
        agreement: dict[int, tuple[Agreement, ...]] = {}
        found: dict[str, list[float]] = {name: [] for name in plan}
        for chunk in range(self.grid.count):
            place = self.grid.slice(chunk)
            pieces = [(name, encode_piece(gradients[name][place], weights[name], KIND)) for name in plan]
            mean = average(self.grid, KIND, pieces, chunk, weights, robust, users, on_probation)
            if any(chunk in some for some in looked_at):
                agreement[chunk] = agreements(self.grid.size(chunk), KIND, dict(pieces), weights, users, on_probation)
            chunks.append(mean.encoded)
            loud = dict(mean.loud)
            for name, without_doubt, weight in zip(plan, usual, kept, strict=True):
                most = without_doubt if name in on_probation else weight
                found[name].append(loud.get(name, 1.0))
                outcome.weights[name] = outcome.weights.get(name, 0) + most
                outcome.lost[name] = outcome.lost.get(name, 0.0) + max(0, most - bounded(weight, found[name][-1]))
        medians = {name: statistics.median_low(times) for name, times in found.items()}
        part = Part("", ("",) * self.grid.count, tuple((name, one) for name, one in medians.items() if one > 1.0))
        seen = [on_average(agreement[chunk] for chunk in some) for some in looked_at]
        return decode_update(chunks, self.grid, KIND), part, seen


def _part(batch: Batch, times: int) -> Batch:
    """The first samples of a batch, so many times fewer."""
    samples, width = batch.input_ids.shape
    kept = max(1, samples // times)
    counted = (batch.masked_positions < kept * width) & (batch.masked_labels >= 0)
    mask = batch.attention_mask
    return Batch(
        input_ids=batch.input_ids[:kept],
        token_type_ids=batch.token_type_ids[:kept],
        attention_mask=None if mask is None else mask[:kept],
        sentence_order_label=batch.sentence_order_label[:kept],
        masked_positions=batch.masked_positions[counted],
        masked_labels=batch.masked_labels[counted],
    )
