"""The part of a chain that a peer holds."""

import tracemalloc

import pytest

from averaging.log import chain as chain_module
from averaging.log.chain import Chain
from averaging.log.header import Ballot, Certificate, Entry, Farewell
from tests.averaging.log.headers import FIRST, chain_of, head, header, member


def test_entries_are_found_by_step_and_by_head() -> None:
    entries = chain_of(6)
    chain = Chain(entries)
    assert (len(chain), chain.head, chain.at(2), chain.at(6)) == (6, entries[-1].header.head, entries[2], None)
    assert chain.after(entries[2].header.head, most=2) == entries[3:5]
    assert chain.after(head(2), most=2) is None  # of another chain
    assert chain.since(4) == entries[4:]
    assert chain.between(1, 3) == entries[2:4]
    assert chain.last(2) == [entry.header for entry in entries[-2:]]


def test_old_headers_are_dropped_but_never_the_newest() -> None:
    entries = chain_of(6)
    chain = Chain(entries)
    chain.forget_before(3, 3)
    assert (chain.at(2), chain.at(3)) == (None, entries[3])
    assert chain.between(0, 4) == entries[3:5]
    chain.forget_before(100, 100)
    assert chain.since(0) == entries[-1:]


def test_old_headers_take_little_memory_and_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    members = tuple(member(f"{'peer' * 11}.{number:08x}", 500, "somebody") for number in range(40))
    votes = tuple(one.session for one in members[:9])
    left = (Farewell(votes[0], "x", 3, Ballot(2, votes[1]), b"signed"),)
    proof = Certificate(FIRST, votes, left, (bytes(200),) * 9)
    tracemalloc.start()
    chain, heads = Chain([]), []
    chain.append(Entry(header(0), proof))
    for step in range(1, 600):
        chain.append(Entry(header(step, chain.tip.digest, members=members), proof))
        heads.append(chain.head)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 9e6
    entries = chain.since(0)
    assert (len(entries), chain.first, chain.oldest) == (600, 0, entries[0].header)
    assert [one.header.head for one in entries[1:]] == heads and all(one.certificate == proof for one in entries)
    assert chain.between(300, 590) == entries[301:591] and chain.at(599) == entries[-1]
    assert chain.last(32) == [one.header for one in entries[-32:]]
    chain.forget_before(400, 200)
    assert chain.first == 200
    monkeypatch.setattr(chain_module, "MOST_PACKED", 200 * 5000)
    chain.forget_before(300, 200)
    assert chain.first == 300, "what is needed is held although there is no room"
    chain.forget_before(600, 600)
    assert chain.since(0) == entries[-1:]


def test_older_headers_are_given_by_digest() -> None:
    entries = chain_of(6)
    chain = Chain(entries)
    assert chain.until(3, entries[3].header.digest, most=2) == entries[2:4]
    assert chain.until(3, entries[2].header.digest, most=2) == chain.until(9, "unknown", most=2) == []


def test_a_gap_is_refused() -> None:
    entries = chain_of(4)
    with pytest.raises(AssertionError, match="gap"):
        Chain([entries[0], entries[2]])
