"""Snapshots: equal states are equal bytes, and nothing that a giver of a state may send is believed."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import pytest
import torch
from msgspec import structs

from averaging.log import moment_codec
from averaging.log.snapshot import CHUNK, Manifest, read_snapshot, write_snapshot
from averaging.log.state import Layout, State

ROWS = 1000
LAYOUT = Layout(("matrix", "bias"), ((ROWS, 601), (7,)))  # more than two chunks of parameters
HEADER = "ab" * 32
OF_TEN = Layout(("vector",), ((10,),))


def state(seed: int = 0, layout: Layout = LAYOUT) -> State:
    draw = torch.Generator().manual_seed(seed)
    parameters, mean, square = (torch.randn(layout.size, generator=draw) for _ in range(3))
    made = State(30, 28, parameters, (mean * 1e-3, square.square() * 1e-7))
    moment_codec.rebase(made)
    return made


def written(one: State) -> tuple[Manifest, dict[str, bytes]]:
    chunks: dict[str, bytes] = {}
    return write_snapshot(one, "run", HEADER, chunks.__setitem__), chunks


def same(one: State, other: State) -> bool:
    vectors = zip((one.parameters, *one.moments), (other.parameters, *other.moments), strict=True)
    return (one.step, one.updates) == (other.step, other.updates) and all(
        torch.equal(ours.view(torch.int32), theirs.view(torch.int32)) for ours, theirs in vectors
    )


def test_a_snapshot_that_is_read_is_the_state() -> None:
    original = state()
    manifest, chunks = written(original)
    parameters, moment = 4 * LAYOUT.size, 2 * LAYOUT.size
    sizes = [CHUNK, CHUNK, parameters - 2 * CHUNK, *2 * [CHUNK, moment - CHUNK]]
    assert [len(chunks[digest]) for digest in manifest.chunks] == sizes
    assert all(hashlib.sha256(content).hexdigest() == digest for digest, content in chunks.items())
    assert chunks[manifest.digest] == manifest.encoded
    assert (manifest.name.step, manifest.name.digest) == (30, manifest.digest)
    decoded = Manifest.decode(manifest.encoded)
    assert (decoded, decoded.digest) == (manifest, manifest.digest)
    assert same(read_snapshot(decoded, chunks.get, "run", LAYOUT), original)


def test_equal_states_give_equal_bytes_and_others_do_not() -> None:
    manifest, chunks = written(state())
    assert written(state()) == (manifest, chunks)
    read = read_snapshot(manifest, chunks.get, "run", LAYOUT)
    assert written(read) == (manifest, chunks)
    others = [state(1), replace(state(), step=31), replace(state(), updates=27)]
    moment_codec.rebase(others[1])
    moved = state()
    moved.parameters[-1] = torch.nextafter(moved.parameters[-1], torch.tensor(9.0))
    digests = {written(one)[0].digest for one in (*others, moved)}
    digests.add(write_snapshot(state(), "run", "", lambda digest, content: None).digest)
    digests.add(write_snapshot(state(), "other run", HEADER, lambda digest, content: None).digest)
    assert len(digests | {manifest.digest}) == 7


@pytest.mark.parametrize("size", [0, 1, CHUNK // 4, CHUNK // 4 + 1, CHUNK // 2, CHUNK // 2 + 1])
def test_states_of_any_size(size: int) -> None:
    layout = Layout(("vector",), ((size,),))
    original = state(layout=layout)
    manifest, chunks = written(original)
    assert same(read_snapshot(Manifest.decode(manifest.encoded), chunks.get, "run", layout), original)


def test_a_state_that_is_not_rebased_or_not_finite_is_not_written() -> None:
    raw = state()
    raw.moments[0].add_(1e-9)
    with pytest.raises(ValueError, match="rebase the state first"):
        written(raw)
    broken = state()
    broken.parameters[5] = math.nan
    with pytest.raises(ValueError, match="a chunk of parameters holds numbers that are not finite"):
        written(broken)


def with_fields(**changes: Any) -> bytes:
    """A manifest of a few elements in which fields are replaced."""
    fields = {
        "format": 2,
        "run": "run",
        "header": HEADER,
        "step": 30,
        "updates": 28,
        "elements": 10,
        "first": 10,
        "second": 10,
        "digests": bytes(96),
    }
    Manifest.decode(msgpack.packb(list(fields.values()))).check("run", OF_TEN)
    return bytes(msgpack.packb(list((fields | changes).values())))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 1},
        {"format": True},
        {"run": b"run"},
        {"run": None},
        {"header": 7},
        {"step": -1},
        {"step": 1 << 53},
        {"step": 30.0},
        {"step": True, "updates": 0},
        {"updates": -1},
        {"updates": 31},
        {"updates": None},
        {"elements": -10},
        {"elements": -(1 << 63)},
        {"elements": 1 << 52},
        {"elements": (1 << 64) - 1},
        {"elements": float("nan")},
        {"elements": 10.0},
        {"elements": "10"},
        {"elements": 0},
        {"first": -10},
        {"first": True},
        {"first": 10.0},
        {"second": None},
        {"second": [10]},
        {"second": 0},
        {"second": 1 << 53},
        {"digests": bytes(95)},
        {"digests": bytes(128)},
        {"digests": b""},
        {"digests": "00" * 96},
        {"digests": [bytes(32)] * 3},
        {"more": 1},
    ],
)
def test_a_manifest_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        Manifest.decode(with_fields(**changes)).check("run", OF_TEN)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\xc1",
        b"\x91" * 5000,
        b"\xdd\xff\xff\xff\xff",  # a list of four billion
        b"\xc6\xff\xff\xff\xff",  # bytes, as many
        b"\xdf\x00\x00\x00\x02\x01\x01\x01\x01",  # a map with the same key twice
        with_fields()[:-1],
        with_fields() + b"\x00",
        b"\xdc\x00\x09" + with_fields()[1:],  # a longer encoding of the same list
        with_fields().replace(b"\xa3run", b"\xd9\x03run"),  # of the same text
        with_fields().replace(b"\x1e\x1c", b"\xcc\x1e\x1c"),  # of the same number
        with_fields().replace(b"\xa3run", b"\xa3\xff\xff\xff"),  # no UTF-8
        msgpack.packb(3),
        msgpack.packb([]),
        msgpack.packb(msgpack.ExtType(1, b"1")),
        msgpack.packb(dict.fromkeys(range(9))),
    ],
)
def test_what_is_no_manifest_is_refused(encoded: bytes) -> None:
    assert encoded != with_fields()
    with pytest.raises(ValueError):
        Manifest.decode(encoded)


def test_a_bit_that_flipped_is_another_manifest_or_none() -> None:
    manifest, _ = written(state())
    for position in range(8 * len(manifest.encoded)):
        flipped = bytearray(manifest.encoded)
        flipped[position // 8] ^= 1 << position % 8
        try:
            assert Manifest.decode(bytes(flipped)).digest != manifest.digest
        except ValueError:
            continue


def test_a_snapshot_of_another_run_or_model_is_refused() -> None:
    manifest, chunks = written(state())
    with pytest.raises(ValueError, match="of run 'run', and this is run 'another'"):
        read_snapshot(manifest, chunks.get, "another", LAYOUT)
    for shape in ((ROWS, 600), (ROWS, 602), (10**6, 10**6)):
        layout = replace(LAYOUT, shapes=(shape, (7,)))
        with pytest.raises(ValueError, match="do not fit the run's"):
            read_snapshot(manifest, chunks.get, "run", layout)
    with pytest.raises(ValueError, match="do not fit the run's"):
        read_snapshot(manifest, chunks.get, "run", replace(LAYOUT, has_muon=True))


def forged(change: Callable[[bytes], bytes], chunk: int) -> tuple[Manifest, dict[str, bytes]]:
    """A manifest that names a changed chunk by its own digest."""
    manifest, chunks = written(state())
    content = change(chunks[manifest.chunks[chunk]])
    digest = hashlib.sha256(content).hexdigest()
    names = (*manifest.chunks[:chunk], digest, *manifest.chunks[chunk + 1 :])
    return structs.replace(manifest, digests=bytes.fromhex("".join(names))), chunks | {digest: content}


@pytest.mark.parametrize(
    ("chunk", "change", "said"),
    [
        (0, lambda content: content[:-4], "vector 1, elements 0 to 262143: chunk .* has 1048572 bytes"),
        (2, lambda content: content + bytes(4), "has .* bytes"),
        (1, lambda content: b"", "has 0 bytes"),
        (3, lambda content: content + content, "has 2097152 bytes"),
        (0, lambda content: content[:400] + b"\x00\x00\xc0\x7f" + content[404:], "parameters holds numbers that are"),
        (2, lambda content: content[:-4] + b"\x00\x00\x80\xff", "parameters holds numbers that are not finite"),
        (3, lambda content: b"\x80\x7f" + content[2:], "encoded moments hold numbers that are not finite"),
        (3, lambda content: b"\xc0\xff" + content[2:], "encoded moments hold numbers that are not finite"),
        (6, lambda content: content[:-2] + b"\x00\xff", "encoded moments hold numbers that are not finite"),
    ],
)
def test_a_forged_chunk_is_refused(chunk: int, change: Callable[[bytes], bytes], said: str) -> None:
    manifest, chunks = forged(change, chunk)
    assert len(Manifest.decode(manifest.encoded).chunks) == 7
    with pytest.raises(ValueError, match=said):
        read_snapshot(manifest, chunks.get, "run", LAYOUT)


def test_a_chunk_that_is_missing_or_another_is_refused() -> None:
    manifest, chunks = written(state())
    for chunk, digest in enumerate(manifest.chunks):
        without = {name: content for name, content in chunks.items() if name != digest}
        with pytest.raises(ValueError, match=f"chunk {digest} is missing"):
            read_snapshot(manifest, without.get, "run", LAYOUT)
        swapped = chunks | {digest: chunks[manifest.chunks[chunk - 1]]}
        with pytest.raises(ValueError, match=f"this is not chunk {digest}"):
            read_snapshot(manifest, swapped.get, "run", LAYOUT)
