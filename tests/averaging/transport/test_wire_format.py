"""Messages as bytes: what is sent arrives, and nothing else does."""

import copy
import hashlib
import math
import random
from typing import TypeVar

import msgpack
import pytest
from msgspec.structs import force_setattr, replace

from averaging.log.header import FORMAT, Ballot, Certificate, Entry, Farewell, Head, Header, HeaderKind, Member
from averaging.log.packing import Packed
from averaging.log.packing import pack as encode
from averaging.protocol.messages import Chunk, Commit, Goodbye, Piece, Report, Vote, Want
from averaging.transport.wire_format import MOST, decode, fits, is_session_of, pack, unpack
from tests.averaging.transport.generated import KINDS, generated, session_of

M = TypeVar("M", bound=Packed)
SOURCE = random.Random(1)
SESSION = session_of(SOURCE)
DIGEST = hashlib.sha256(b"x").hexdigest()
HEADER = Header("run", 3, HeaderKind.UPDATE, DIGEST, Ballot(1, SESSION), (Member(SESSION, "amina", (1,), 7, True),))
COMMIT = Commit(Entry(HEADER, Certificate(Ballot(1, SESSION), (SESSION,))))


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_arrives_as_it_was_sent(kind: type):
    for seed in range(200):
        message = generated(kind, random.Random(seed))
        assert decode(encode(message)) == message


def test_a_header_keeps_its_digest():
    arrived = decode(encode(COMMIT))
    assert isinstance(arrived, Commit)
    assert arrived.entry.header.digest == HEADER.digest


def test_a_goodbye_of_a_peer_without_a_state_arrives():
    goodbye = Goodbye(Farewell(SESSION, "", -1, None), None)
    assert decode(encode(goodbye)) == goodbye


@pytest.mark.parametrize("user", ["~ক্\u200cষ", "~র\u200d্যাঁদা", "~नमस्\u200dते"])
def test_a_name_with_joiners_arrives(user: str):
    header = replace(HEADER, members=(Member(SESSION, user, (1,), 7, True),))
    commit = Commit(Entry(header, COMMIT.entry.certificate))
    assert decode(encode(commit)) == commit


def test_a_payload_comes_with_its_message():
    piece = Piece(Ballot(1, SESSION), 2, 0)
    assert unpack(pack(encode(piece), b"numbers")) == (piece, b"numbers")
    assert unpack(pack(encode(Want((DIGEST,))))) == (Want((DIGEST,)), None)


def test_a_chunk_fits_its_digest_only():
    assert fits(Chunk(DIGEST), b"x") and fits(Want((DIGEST,)), None)
    assert not fits(Chunk(DIGEST), b"y")


def test_a_session_is_of_the_peer_that_it_names():
    peer = SESSION.partition(".")[0]
    assert is_session_of(SESSION, peer)
    assert not is_session_of(SESSION, peer[:-1] + "x")
    assert not is_session_of(SESSION + "0", peer) and not is_session_of(peer, peer)


def altered(message: M, **changes: object) -> M:
    """With values that no honest peer sends."""
    changed = copy.copy(message)
    for name, value in changes.items():
        force_setattr(changed, name, value)
    return changed


def in_header(**changes: object) -> bytes:
    """A commit of a header with such a value, which is encoded as headers are."""
    return encode(altered(COMMIT, entry=altered(COMMIT.entry, header=altered(HEADER, **changes))))


def plain(*values: object) -> bytes:
    return bytes(msgpack.packb(list(values)))


def with_header(*fields: object) -> bytes:
    return plain("Commit", [fields, [[1, SESSION], [SESSION], [], []]], [])


ATTACKS = {
    "nothing": b"",
    "noise": bytes(range(256)),
    "no list": msgpack.packb("Report"),
    "empty list": msgpack.packb([]),
    "unknown message": plain("Format", "disk"),
    "message that is a list": plain(["Report"], None, 1),
    "private class": plain("Member", SESSION, "amina", [1], 1, True),
    "more behind it": encode(Report(None, 1)) + b"\0",
    "cut short": encode(COMMIT)[:-1],
    "too few values": plain("Report", None),
    "too many values": plain("Report", None, 1, 2, 3, 4, 5, 6, 7, 8, 9),
    "map": plain("Report", {"step": 1}, 1),
    "extension": plain("Report", msgpack.ExtType(4, b"x"), 1),
    "time": plain("Report", msgpack.Timestamp(1, 1), 1),
    "deep lists": plain("Report") [:1] + b"\x91" * 100_000,
    "list of 2**32 - 1": b"\xdd\xff\xff\xff\xff",
    "string of 2**32 - 1": b"\x91\xdb\xff\xff\xff\xff",
    "not UTF-8": b"\x91\xa2\xff\xff",
    "negative step": encode(Vote(Ballot(-1, SESSION), DIGEST)),
    "step of -2 in a goodbye": encode(Goodbye(Farewell(SESSION, DIGEST, -2, None), None)),
    "huge number": encode(Vote(Ballot(2**63, SESSION), DIGEST)),
    "number that is a bool": encode(Vote(Ballot(True, SESSION), DIGEST)),
    "number that is a float": encode(Vote(Ballot(1.0, SESSION), DIGEST)),  # type: ignore[arg-type]
    "number that is NaN": encode(Vote(Ballot(math.nan, SESSION), DIGEST)),  # type: ignore[arg-type]
    "digest in capitals": encode(Chunk(DIGEST.upper())),
    "short digest": encode(Chunk(DIGEST[:-1])),
    "digest with a line end": encode(Chunk(DIGEST + "\n")),
    "digest of other digits": encode(Chunk("٣" * 64)),
    "empty digest": encode(Chunk("")),
    "digest that is bytes": plain("Chunk", DIGEST.encode()),
    "too many digests": encode(Want((DIGEST,) * (MOST["digests"] + 1))),
    "session of nobody": encode(Vote(Ballot(1, "amina"), DIGEST)),
    "long session": encode(Vote(Ballot(1, SESSION + "0" * 1000), DIGEST)),
    "head that is a string": plain("Report", "x", 1),
    "header that is short": plain("Propose", [1, SESSION], [FORMAT, 2]),
    "header that is bytes": plain("Propose", [1, SESSION], HEADER.encoded),
    "header of another format": with_header(FORMAT + 1, *msgpack.unpackb(HEADER.encoded)[1:]),
    "header that says more": with_header(*msgpack.unpackb(HEADER.encoded), 1),
    "header with a negative step": in_header(step=-1),
    "header with a long run": in_header(run="x" * 1000),
    "header with a run that is a number": in_header(run=1),
    "header with an escape sequence": in_header(run="\x1b[2J"),
    "header of no kind": in_header(kind="format"),
    "header with too many voters": in_header(voters=(SESSION,) * 65),
    "header with a voter that is a number": in_header(voters=(1,)),
    "header with too many members": in_header(members=HEADER.members * 5000),
    "header whose member has a weight of text": in_header(members=(altered(HEADER.members[0], weight="9"),)),
    "header whose member has a negative weight": in_header(members=(altered(HEADER.members[0], weight=-9),)),
    "header whose member has a long name": in_header(members=(altered(HEADER.members[0], user="a" * 129),)),
}  # fmt: skip


def test_the_bytes_around_a_false_header_are_good():
    assert decode(with_header(*msgpack.unpackb(HEADER.encoded))) == COMMIT


def test_a_header_that_arrives_in_another_encoding_has_the_digest_of_its_only_one():
    longer = HEADER.encoded[:1].replace(b"\x9f", b"\xdc\x00\x0f") + HEADER.encoded[1:]
    encoded = encode(COMMIT)
    assert encoded.count(HEADER.encoded) == 1 and len(longer) > len(HEADER.encoded)
    arrived = decode(encoded.replace(HEADER.encoded, longer))
    assert isinstance(arrived, Commit)
    assert (arrived.entry.header.encoded, arrived.entry.header.digest) == (HEADER.encoded, HEADER.digest)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_no_message_is_one_line_of_error(attack: str):
    with pytest.raises(ValueError) as caught:
        decode(ATTACKS[attack])
    assert (
        type(caught.value) is ValueError and len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 200
    )


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\0\0",
        b"\xff\xff\xff\xff" + encode(COMMIT),
        pack(encode(Chunk(DIGEST))),
        pack(encode(Piece(Ballot(1, SESSION), 0, 0)), b""),
        pack(encode(Report(Head(1, DIGEST), 1)), b"numbers"),
    ],
    ids=[
        "nothing",
        "two bytes",
        "longer than it is",
        "chunk without bytes",
        "piece without bytes",
        "report with bytes",
    ],
)
def test_payloads_stand_only_where_they_belong(packed: bytes):
    with pytest.raises(ValueError):
        unpack(packed)


def test_flipped_bits_are_another_message_or_an_error():
    encoded, source = encode(COMMIT), random.Random(2)
    for _ in range(3000):
        wrong = bytearray(encoded)
        for _ in range(source.randrange(1, 4)):
            wrong[source.randrange(len(wrong))] ^= 1 << source.randrange(8)
        try:
            assert encode(decode(bytes(wrong))) is not None
        except ValueError as error:
            assert len(str(error).splitlines()) == 1
