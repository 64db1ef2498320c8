"""How fast the mean spreads: Moshpit's groups beside all-reduce, gossip and push-sum, when peers fail. A simulation.

    python -m benchmarks.moshpit [--peers 1024] [--group-size 32] [--rounds 10] [--repeats 3] [--json FILE]
    python -m benchmarks.moshpit --peers 10000 --group-size 16

As in the paper's figure of averaging error (Ryabinin et al. 2021, section 4.1), every peer has a number, drawn from a
normal distribution, and fails in each round with a probability of its own. The error is the mean squared distance from
the mean of all numbers. Nothing is sent; the keys are those of `averaging/moshpit/group_keys.py`.

- *all-reduce*: all peers are one group. If one of them fails, the round is lost, and the next one starts again.
- *moshpit*: groups by keys; a group in which somebody fails loses its round, the others do not. Its members keep
  their numbers and draw new keys as if it had worked.
- *random groups*: groups of the same size from peers shuffled anew in each round, with the same rule.
- *gossip*: peers meet in random pairs and take the mean of both (Boyd et al. 2006), twice in a round.
- *push-sum*: every peer sends half of its sum and weight to the peer 2^k places on (Assran et al. 2019), twice in a
  round. Who fails sends and gets nothing.

In a round of M peers each sends 2 (M - 1) / M vectors, so two whole vectors are as much as a round of Moshpit sends.

What counts: without failures Moshpit is exact after d rounds on a full grid; with them its error goes on falling by a
factor in every round, while all-reduce stands still.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from averaging.moshpit.group_keys import first_keys, following_keys, index_bits, key_bits, meeting, rounds_to_mix
from benchmarks.support import command
from swarm.errors import SahajError
from swarm.files import write_file

Numbers = NDArray[np.float64]
FAILURES = (0.0, 0.001, 0.005, 0.01)  # of a peer in a round
MESSAGES = 2  # whole vectors that a peer sends in a round, where there are no groups
EXACT = 1e-25  # a mean squared error that is rounding alone


@dataclass(frozen=True)
class Setting:
    """One swarm."""

    peers: int
    group_size: int
    failure: float

    @property
    def bits(self) -> int:
        """Of a group's key."""
        return key_bits(self.peers, self.group_size)


Round = Callable[[Numbers, NDArray[np.bool_], int], Numbers]


def main(
    peers: Annotated[int, typer.Option(min=2, max=100_000)] = 1024,
    group_size: Annotated[int, typer.Option(help="Of Moshpit's groups; a power of two.")] = 32,
    rounds: Annotated[int, typer.Option(min=1)] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Runs with other numbers; their errors' mean counts.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Simulate, print a table, and write the JSON file if one is asked for."""
    if group_size > peers:
        raise SahajError(f"--group-size must be at most {peers} (--peers), got {group_size}")
    try:
        index_bits(group_size)
    except ValueError as error:
        raise SahajError(f"--group-size: {error}") from None
    found: dict[str, dict[str, list[float]]] = {}
    for failure in track(FAILURES, "failures", transient=True):
        setting = Setting(peers, group_size, failure)
        found[f"{failure:g}"] = {
            name: simulate(setting, name, rounds, repeats) for name in ("allreduce", "moshpit", *OTHERS)
        }
    setting = Setting(peers, group_size, 0.0)
    _print(setting, found)
    if json_file:
        about = asdict(setting) | {"key_bits": setting.bits, "rounds_to_mix": rounds_to_mix(setting.bits, group_size)}
        del about["failure"]
        about |= {"repeats": repeats, "errors": found}
        write_file(json_file, json.dumps(about, indent=2) + "\n")


def simulate(setting: Setting, name: str, rounds: int, repeats: int) -> list[float]:
    """The error before the first round and after each, a mean over `repeats` runs."""
    errors = np.zeros(rounds + 1)
    for seed in range(repeats):
        rng = np.random.default_rng([seed, setting.peers])
        values = rng.normal(size=setting.peers)
        mean = values.mean()
        averaging = _averaging(setting, name, rng)
        for number in range(rounds + 1):
            errors[number] += ((values - mean) ** 2).mean() / repeats
            values = averaging(values, rng.random(setting.peers) < setting.failure, number)
    return [float(f"{error:.4e}") if error > EXACT else 0.0 for error in errors]


def _averaging(setting: Setting, name: str, rng: np.random.Generator) -> Round:
    if name == "allreduce":
        return lambda values, failed, _: values if failed.any() else np.full_like(values, values.mean())
    if name == "moshpit":
        return _moshpit(setting)
    return OTHERS[name](setting, rng)


def _moshpit(setting: Setting) -> Round:
    keys = first_keys(setting.peers, setting.group_size)  # numbers are drawn, so that their order does not matter

    def one(values: Numbers, failed: NDArray[np.bool_], number: int) -> Numbers:
        nonlocal keys
        values = values.copy()
        for members in meeting(keys).values():
            if not failed[members].any():
                values[members] = values[members].mean()
        keys = following_keys(keys, setting.group_size, str(number))
        return values

    return one


def _random_groups(setting: Setting, rng: np.random.Generator) -> Round:
    def one(values: Numbers, failed: NDArray[np.bool_], _: int) -> Numbers:
        values, order = values.copy(), rng.permutation(setting.peers)
        for members in np.array_split(order, math.ceil(setting.peers / setting.group_size)):
            if not failed[members].any():
                values[members] = values[members].mean()
        return values

    return one


def _gossip(setting: Setting, rng: np.random.Generator) -> Round:
    def one(values: Numbers, failed: NDArray[np.bool_], _: int) -> Numbers:
        values = values.copy()
        for _message in range(MESSAGES):
            order = rng.permutation(setting.peers)[: setting.peers // 2 * 2].reshape(-1, 2)
            pairs = order[~failed[order].any(axis=1)]
            values[pairs] = values[pairs].mean(axis=1, keepdims=True)
        return values

    return one


def _push_sum(setting: Setting, _: np.random.Generator) -> Round:
    sums, weights = np.zeros(0), np.ones(setting.peers)
    hops = max(1, math.ceil(math.log2(setting.peers)))

    def one(values: Numbers, failed: NDArray[np.bool_], number: int) -> Numbers:
        nonlocal sums, weights
        if number == 0:
            sums = values.copy()
        for message in range(MESSAGES):
            step = 2 ** ((number * MESSAGES + message) % hops)
            works = ~(failed | np.roll(failed, -step))  # the sender and whom it sends to
            sent_sums, sent_weights = np.where(works, sums / 2, 0.0), np.where(works, weights / 2, 0.0)
            sums = sums - sent_sums + np.roll(sent_sums, step)
            weights = weights - sent_weights + np.roll(sent_weights, step)
        return sums / weights

    return one


OTHERS: dict[str, Callable[[Setting, np.random.Generator], Round]] = {
    "random groups": _random_groups,
    "gossip": _gossip,
    "push-sum": _push_sum,
}


def _print(setting: Setting, found: dict[str, dict[str, list[float]]]) -> None:
    names = list(next(iter(found.values())))
    title = f"Mean squared error, {setting.peers:,} peers, groups of {setting.group_size} ({2**setting.bits} keys)"
    table = Table("failures", "round", *names, title=title)
    for failure, errors in found.items():
        for number in range(len(errors[names[0]])):
            figures = (f"{errors[name][number]:.1e}" if errors[name][number] else "exact" for name in names)
            table.add_row(f"{float(failure):.1%}" if number == 0 else "", str(number), *figures)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    command.run(main)
