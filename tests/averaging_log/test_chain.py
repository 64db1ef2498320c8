"""The part of a chain that a peer holds."""

import pytest

from averaging.log.chain import Chain
from tests.averaging_log.headers import chain_of, head


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
    chain.forget_before(3)
    assert (chain.at(2), chain.at(3)) == (None, entries[3])
    assert chain.between(0, 4) == entries[3:5]
    chain.forget_before(100)
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
