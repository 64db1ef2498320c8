"""Learning with experts that are late and sometimes silent, against a dense net of equal compute.

Task: scikit-learn's handwritten digits, moved by up to two pixels, so that there is no end of training samples. A row
goes to four experts of the 4, 16 or 64 of each layer; in the dense net each layer is one block with four times the
hidden width. The experts' steps come `DELAY` batches late, as with as many trainers in flight, and some calls fail.

Source: Ryabinin and Gusev 2020, section 4.2.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from experts.expert import Expert, new_expert
from experts.grid import Grid, all_uids
from experts.layer.local import LocalExperts
from experts.layer.mixture import Mixture, MixtureOfExperts

GRIDS: dict[int, Grid] = {4: (2, 2), 16: (4, 4), 64: (8, 8)}
ACTIVE = 4  # experts of a row
TRUNK, WIDTH, HIDDEN, LAYERS = 64, 32, 32, 2  # HIDDEN: of one expert
SHIFT, SIDE = 2, 8  # pixels
DELAY = 16  # batches
FAILURES = 0.1
STEPS, BATCH = 400, 128
LEARNING_RATE = 2e-3
BALANCE = 0.01  # weight of the balancing loss
EVALUATE_EVERY = 25  # steps
GOAL = 0.85  # of the held-out digits
HELD_OUT_COPIES = 4  # of each held-out digit, moved differently


@dataclass(frozen=True)
class Course:
    """How a net learned."""

    accuracy: float  # of held-out digits, mean of the last four evaluations
    loss: float  # nats, likewise
    steps_to_goal: int | None


class Digits:
    """Images, moved by chance, and their labels; every third digit is held out."""

    def __init__(self, seed: int):
        images, labels = load_digits(return_X_y=True)
        images = torch.tensor(images, dtype=torch.float32).view(-1, SIDE, SIDE) / 16
        self._padded = nn.functional.pad(images, (2 * SHIFT,) * 4)
        self._labels = torch.tensor(labels, dtype=torch.int64)
        numbers = torch.arange(len(images))
        self._train = numbers[numbers % 3 != 0]
        self._random = torch.Generator().manual_seed(seed)
        held_out = numbers[numbers % 3 == 0].repeat(HELD_OUT_COPIES)
        self.held_out = self._moved(held_out, torch.Generator().manual_seed(0))

    def batch(self) -> tuple[Tensor, Tensor]:
        """(BATCH, pixels) and (BATCH,), drawn with replacement."""
        drawn = torch.randint(len(self._train), (BATCH,), generator=self._random)
        return self._moved(self._train[drawn], self._random)

    def _moved(self, numbers: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        seen = SIDE + 2 * SHIFT
        down, right = torch.randint(2 * SHIFT + 1, (2, len(numbers), 1), generator=generator)
        places = torch.arange(seen)
        images = self._padded[numbers[:, None, None], (down + places)[:, :, None], (right + places)[:, None, :]]
        return images.flatten(1), self._labels[numbers]


class DenseTerm(nn.Module):
    """What stands in the place of the mixture in a dense net: one block behind the same bottleneck."""

    def __init__(self, trunk_width: int, width: int, hidden: int):
        super().__init__()
        self.down, self.up = nn.Linear(trunk_width, width), nn.Linear(width, trunk_width, bias=False)
        self.block = Expert(width, hidden)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows: Tensor) -> Mixture:
        """As of a mixture without experts elsewhere."""
        return Mixture(self.up(self.block(self.down(rows))), rows.new_zeros(()))


class Net(nn.Module):
    """Scores ten digits from pixels; each layer adds its term to the rows."""

    def __init__(self, make_term: Callable[[], nn.Module]):
        super().__init__()
        self.into = nn.Linear((SIDE + 2 * SHIFT) ** 2, TRUNK)
        self.norms = nn.ModuleList(nn.LayerNorm(TRUNK) for _ in range(LAYERS))
        self.terms = nn.ModuleList(make_term() for _ in range(LAYERS))
        self.out = nn.Sequential(nn.LayerNorm(TRUNK), nn.Linear(TRUNK, 10))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Scores, and the sum of the balancing losses."""
        rows, balance = self.into(pixels), pixels.new_zeros(())
        for norm, term in zip(self.norms, self.terms, strict=True):
            mixture = term(norm(rows))
            rows, balance = rows + mixture.added, balance + mixture.balancing_loss
        return self.out(rows), balance


def dense() -> nn.Module:
    """A term of equal compute."""
    return DenseTerm(TRUNK, WIDTH, ACTIVE * HIDDEN)


def mixture(experts: int, delay: int, failures: float, seed: int) -> Callable[[], nn.Module]:
    """Makes terms with experts of their own."""
    seeds = iter(range(1000 * seed, 1000 * (seed + 1), experts))

    def made() -> nn.Module:
        first = next(seeds)
        every = {uid: new_expert(WIDTH, HIDDEN, first + at) for at, uid in enumerate(all_uids(GRIDS[experts]))}
        caller = LocalExperts(every, learning_rate=LEARNING_RATE, delay=delay, failures=failures, seed=first)
        return MixtureOfExperts(TRUNK, WIDTH, GRIDS[experts], caller, experts_of_a_row=ACTIVE, off_share=0.0)

    return made


def learn(make_term: Callable[[], nn.Module], seed: int, steps: int = STEPS) -> Course:
    """Train a net, and see how it does on held-out digits."""
    torch.manual_seed(seed)
    net, digits = Net(make_term), Digits(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
    accuracies, losses = [], []
    for number in range(1, steps + 1):
        pixels, labels = digits.batch()
        scores, balance = net(pixels)
        optimizer.zero_grad()
        (nn.functional.cross_entropy(scores, labels) + BALANCE * balance).backward()
        optimizer.step()
        if number % EVALUATE_EVERY == 0:
            accuracy, loss = evaluate(net, digits)
            accuracies.append(accuracy)
            losses.append(loss)
    reached = [at for at, accuracy in enumerate(accuracies, 1) if accuracy >= GOAL]
    return Course(
        statistics.mean(accuracies[-4:]),
        statistics.mean(losses[-4:]),
        reached[0] * EVALUATE_EVERY if reached else None,
    )


def evaluate(net: Net, digits: Digits) -> tuple[float, float]:
    """Accuracy and loss on held-out digits."""
    pixels, labels = digits.held_out
    net.eval()
    with torch.no_grad():
        scores, _ = net(pixels)
    net.train()
    return float((scores.argmax(1) == labels).float().mean()), float(nn.functional.cross_entropy(scores, labels))


def measure(seeds: int, see: Callable[[str], None]) -> dict[str, list[Course]]:
    """The courses of all nets, one for each seed."""
    found: dict[str, list[Course]] = {}

    def learned(name: str, make: Callable[[int], Callable[[], nn.Module]]) -> None:
        found[name] = [learn(make(seed), seed) for seed in range(seeds)]
        see(f"digits, {name}: {statistics.mean(one.accuracy for one in found[name]):.3f} of the held-out ones")

    learned("dense", lambda seed: dense)
    for experts in GRIDS:
        learned(f"{experts} experts", partial(mixture, experts, 0, 0.0))
        learned(f"{experts} experts, late", partial(mixture, experts, DELAY, 0.0))
        learned(f"{experts} experts, late and failing", partial(mixture, experts, DELAY, FAILURES))
    return found
