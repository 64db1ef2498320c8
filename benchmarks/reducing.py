"""What one encoded mean costs: processor time, and how far from the mean it leaves each peer.

    python -m benchmarks.reducing [--peers 16] [--json FILE]

Errors are of a round in 8 bits, ours beside hivemind's. Ours encodes the mean once, and all peers decode the same
bytes. hivemind's reducer sends each member what it quantized of the mean less the member's own gradient, so that each
decodes another mean. Gradients are *noise*, normally distributed, and those of a *model*: an ALBERT as large as the
demo's, before its first step, with random tokens as frequent as words are; all peers have the same number of masked
tokens. `error` is the distance of a peer's mean from the true one and `apart` that of two peers' means, root mean
squares relative to the norm of the true mean. hivemind works on tensors of the run in parts of 2**17 elements.

Speeds are of one core, in megabytes of float32 a second. With them stands what keeping liars off costs: a sender hashes
and signs its pieces, a reducer checks that, and looks for loud senders (`access.robust: watch`) or scales them down.
"""

import hashlib
import itertools
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import numpy as np
import torch
import typer
from hivemind.compression import CompressionInfo, Float16Compression, SizeAdaptiveCompression, Uniform8BitQuantization
from hivemind.utils.crypto import RSAPrivateKey
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import AlbertConfig

from averaging.reduce import reducer
from averaging.reduce.clipping import Robust
from averaging.reduce.gradient_codec import Compression, decode, encode, encode_piece
from averaging.reduce.grid import LARGEST_CHUNK, Grid
from averaging.shell.replay import decode_update
from averaging.transport.pass_credentials import PassCredentials
from benchmarks.support import command
from swarm.access.gate import Gate
from swarm.files import write_file
from swarm.identity import Identity, peer_id_of
from trainer.data import Batch
from trainer.models.albert import AlbertPretraining

KINDS: tuple[Compression, ...] = ("8bit", "float16", "none")
NOISE = 2**20  # elements
LARGE_TENSOR = 2**16  # elements from which hivemind sends 8 bits
SAMPLES, LENGTH, MASKED, VOCABULARY = 16, 128, 19, 4096  # of one peer's batch
SECONDS = 0.5  # that a speed is measured


@dataclass(frozen=True)
class Errors:
    """Of one kind of gradients; see the module."""

    ours_error: float
    ours_apart: float
    hivemind_error: float
    hivemind_apart: float


@dataclass(frozen=True)
class Speeds:
    """MB of float32 a second, on one core."""

    encode: float
    decode: float
    average: float  # of all peers' pieces together, the encoding of the mean included


def main(
    peers: Annotated[int, typer.Option(min=2, help="Peers whose gradients are averaged.")] = 16,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure errors and speeds and print them."""
    torch.set_num_threads(1)
    errors = {"noise": compare(noise(peers), [NOISE]), "model": compare(*model_gradients(peers))}
    speeds: dict[str, Speeds] = {kind: measure(kind, peers) for kind in KINDS}
    guarded = measure_guards(peers)
    if json_file is not None:
        figures = {"peers": peers, "errors": errors, "speeds": speeds, "guarded": guarded}
        write_file(json_file, json.dumps(figures, indent=2, default=asdict) + "\n")
    _print(peers, errors, speeds, guarded)


# -- errors


def noise(peers: int) -> list[Tensor]:
    """A gradient of each peer."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(NOISE, generator=generator) for _ in range(peers)]


def model_gradients(peers: int) -> tuple[list[Tensor], list[int]]:
    """A gradient of each peer, and the sizes of the model's tensors."""
    torch.manual_seed(0)
    widths: dict[str, Any] = {"embedding_size": 128, "hidden_size": 256, "intermediate_size": 1024}
    model = AlbertPretraining(
        AlbertConfig(vocab_size=VOCABULARY, num_hidden_layers=6, num_attention_heads=4, hidden_act="gelu", **widths)
    )
    gradients = []
    for peer in range(peers):
        model.zero_grad(set_to_none=True)
        model(_batch(peer)).loss.backward()
        tensors = [one.grad.flatten() for one in model.parameters() if one.grad is not None]
        gradients.append(torch.cat(tensors))
    return gradients, [len(one) for one in tensors]


def _batch(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    frequencies = 1 / torch.arange(1, VOCABULARY + 1)
    ids = torch.multinomial(frequencies, SAMPLES * LENGTH, replacement=True, generator=generator)
    masked = [torch.randperm(LENGTH, generator=generator)[:MASKED] + LENGTH * row for row in range(SAMPLES)]
    positions = torch.cat(masked).sort().values
    shown = ids.index_fill(0, positions, 4).view(SAMPLES, LENGTH)
    return Batch(
        input_ids=shown,
        token_type_ids=torch.zeros_like(shown),
        attention_mask=None,
        sentence_order_label=torch.randint(0, 2, (SAMPLES,), generator=generator),
        masked_positions=positions,
        masked_labels=ids[positions],
    )


def compare(gradients: Sequence[Tensor], sizes: Sequence[int]) -> Errors:
    """A round of peers that weigh the same.

    Args:
        gradients: one of each peer, of shape [elements].
        sizes: of the tensors in it.
    """
    mean = torch.stack(list(gradients)).mean(dim=0, dtype=torch.float64).float()
    ours = [_ours(gradients)]  # the same for all
    theirs = _hiveminds(gradients, sizes)
    return Errors(_error(ours, mean), _apart(ours, mean), _error(theirs, mean), _apart(theirs, mean))


def _ours(gradients: Sequence[Tensor]) -> Tensor:
    grid = Grid(len(gradients[0]))
    weights = {str(peer): 1 for peer in range(len(gradients))}
    chunks = []
    for chunk in range(grid.count):
        place = grid.slice(chunk)
        pieces = [(str(peer), encode_piece(one[place].numpy(), 1, "8bit")) for peer, one in enumerate(gradients)]
        chunks.append(reducer.average(grid, "8bit", pieces, chunk, weights).encoded)
    return decode_update(chunks, grid, "8bit")


def _hiveminds(gradients: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
    """The mean that each peer decodes; the reducers are others."""
    parts = [part for size in sizes for part in torch.ones(size).split(LARGEST_CHUNK)]
    split = [torch.split(gradient, [len(part) for part in parts]) for gradient in gradients]
    means: list[list[Tensor]] = [[] for _ in gradients]
    for own_parts in zip(*split, strict=True):
        arrived = [_quantized(part) for part in own_parts]
        mean = torch.stack(arrived).mean(dim=0)
        for peer, (own, seen) in enumerate(zip(own_parts, arrived, strict=True)):
            means[peer].append(own + _quantized(mean - seen))
    return [torch.cat(one) for one in means]


def _quantized(tensor: Tensor) -> Tensor:
    info = CompressionInfo.from_tensor(tensor)
    compression = SizeAdaptiveCompression(LARGE_TENSOR, Float16Compression(), Uniform8BitQuantization())
    back: Tensor = compression.extract(compression.compress(tensor, info))
    return back


def _error(means: Sequence[Tensor], true: Tensor) -> float:
    return _root_mean_square([float((mean - true).norm() / true.norm()) for mean in means])


def _apart(means: Sequence[Tensor], true: Tensor) -> float:
    pairs = itertools.combinations(means, 2)
    return _root_mean_square([float((one - other).norm() / true.norm()) for one, other in pairs])


def _root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(sum(value**2 for value in values) / max(1, len(values)))


# -- speeds


def measure(kind: Compression, peers: int) -> Speeds:
    """With chunks of a large model."""
    grid = Grid(16 * LARGEST_CHUNK)
    size = grid.size(0)
    values = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    encoded, out = encode(values, kind), np.empty_like(values)
    pieces = [(str(peer), encode_piece(values, 1, kind)) for peer in range(peers)]
    weights = {session: 1 for session, _ in pieces}
    return Speeds(
        encode=_megabytes(values.nbytes, lambda: encode(values, kind)),
        decode=_megabytes(values.nbytes, lambda: decode(encoded, size, kind, out)),
        average=_megabytes(peers * values.nbytes, lambda: reducer.average(grid, kind, pieces, 0, weights)),
    )


def measure_guards(peers: int) -> dict[str, float]:
    """In 8 bits: MB of float32 a second, on one core, and bytes that a signature adds to a byte of a piece."""
    grid, names, whose = Grid(16 * LARGEST_CHUNK), [str(peer) for peer in range(peers)], RSAPrivateKey()
    values = np.random.default_rng(0).standard_normal((peers, grid.size(0))).astype(np.float32)
    pieces = [(name, encode_piece(one, 1, "8bit")) for name, one in zip(names, values, strict=True)]
    weights, users = dict.fromkeys(names, 1), {name: name for name in names}
    piece, size = pieces[0][1], values[0].nbytes
    identity, gate = SimpleNamespace(private_key=whose), SimpleNamespace()
    key = PassCredentials(cast(Identity, identity), cast(Gate, gate))
    session = f"{peer_id_of(whose.get_public_key().to_bytes())}.0"
    digest = hashlib.sha256(piece).digest()
    signature = key.sign(digest)
    assert key.verify(session, digest, signature)
    robust: tuple[Robust, ...] = ("off", "watch", "enforce")
    return {
        "sign": _megabytes(size, lambda: key.sign(hashlib.sha256(piece).digest())),
        "check": _megabytes(size, lambda: key.verify(session, hashlib.sha256(piece).digest(), signature)),
        **{
            one: _megabytes(peers * size, partial(reducer.average, grid, "8bit", pieces, 0, weights, one, users))
            for one in robust
        },
        "signature": round(len(signature) / len(piece), 5),
    }


def _megabytes(size: int, work: Callable[[], object]) -> float:
    """A second, of processor time."""
    work()
    times, began = 0, time.process_time()
    while time.process_time() < began + SECONDS:
        work()
        times += 1
    return round(size * times / (time.process_time() - began) / 1e6)


def _print(peers: int, errors: dict[str, Errors], speeds: dict[str, Speeds], guarded: dict[str, float]) -> None:
    console = Console()
    table = Table("gradients", "ours", "apart", "hivemind's", "apart", title=f"Error of the mean of {peers} peers")
    for name, one in errors.items():
        figures = (one.ours_error, one.ours_apart, one.hivemind_error, one.hivemind_apart)
        table.add_row(name, *(f"{figure:.2%}" for figure in figures))
    console.print(table)
    table = Table("", "encode", "decode", f"average {peers}", title="MB of float32 a second on one core")
    for kind, speed in speeds.items():
        table.add_row(kind, f"{speed.encode:,}", f"{speed.decode:,}", f"{speed.average:,}")
    console.print(table)
    table = Table("sign", "check", "average: off", "watch", "enforce", title="With guards, in 8 bits, the same unit")
    table.add_row(*(f"{guarded[key]:,}" for key in ("sign", "check", "off", "watch", "enforce")))
    console.print(table)
    console.print(f"A signature adds {guarded['signature']:.2%} to a piece.")


if __name__ == "__main__":
    command.run(main)
