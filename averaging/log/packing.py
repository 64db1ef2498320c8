"""Entries of the log as bytes, with all that their certificates say: for files, and for memory that is to be small."""

from dataclasses import astuple
from typing import Any

import msgpack

from averaging.log.header import Ballot, Certificate, Entry, Farewell, Header


def fields_of(entry: Entry) -> list[Any]:
    """What MessagePack takes."""
    proof = entry.certificate
    left = [
        [one.session, one.instance, one.step, astuple(one.promised) if one.promised else None, one.signature]
        for one in proof.goodbyes
    ]
    return [entry.header.encoded, astuple(proof.ballot), proof.votes, left, proof.signatures]


def entry_of(fields: list[Any]) -> Entry:
    """The entry with these fields.

    Raises:
        ValueError: there is none.
    """
    try:
        header, ballot, votes, left, signatures = fields
        goodbyes = tuple(
            Farewell(session, instance, step, Ballot(*promised) if promised else None, signature)
            for session, instance, step, promised, signature in left
        )
        return Entry(Header.decode(header), Certificate(Ballot(*ballot), tuple(votes), goodbyes, tuple(signatures)))
    except TypeError as error:
        raise ValueError(f"no entry: {error}") from error


def pack(entry: Entry) -> bytes:
    """Its bytes, some 6 KB with 40 members and nine votes."""
    return bytes(msgpack.packb(fields_of(entry)))


def unpack(packed: bytes) -> Entry:
    """The entry that was packed."""
    return entry_of(msgpack.unpackb(packed))
