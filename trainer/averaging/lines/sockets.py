"""What a process has sent and received over the network, by the books of the kernel (Linux).

The kernel counts for each TCP connection the bytes that the other side has confirmed. What waits in a buffer of ours
or of a router at home is not among them, so this is what the line has carried. Connections within this computer use
no line and are left out. No privileges are needed for processes of the same user.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NETLINK_SOCK_DIAG = 4  # of <linux/netlink.h>
SOCK_DIAG_BY_FAMILY = 20  # of <linux/sock_diag.h>
REQUEST, DUMP = 0x001, 0x300  # flags of <linux/netlink.h>
DONE, ERROR = 3, 2  # kinds of messages there
INFO = 2  # INET_DIAG_INFO of <linux/inet_diag.h>
HEADER, ANSWER, ATTRIBUTE = 16, 72, 4  # bytes
RECEIVE = 1 << 18  # bytes; the kernel fills at most 32 KiB at a time
PATIENCE = 1.0  # seconds
# of struct tcp_info in <linux/tcp.h>: where its fields begin
MAXIMUM_SEGMENT, UNCONFIRMED, CONFIRMED_OUT_OF_ORDER, CONFIRMED, RECEIVED = 16, 24, 28, 120, 128
NOT_SENT, RECEIVER_LIMITED = 144, 176
FIELDS_END = RECEIVER_LIMITED + 8


@dataclass(frozen=True)
class Connection:
    """One TCP connection."""

    cookie: bytes  # of this connection and of no other one
    sent: int  # bytes that have arrived on the other side
    received: int  # bytes
    waiting: int  # bytes that the kernel has not sent yet
    unconfirmed: int  # packets that it has sent and the other side has not confirmed
    receiver_limited: float  # seconds, in all, in which the other side had no room


def connections(pid: int) -> list[Connection]:
    """The TCP connections of a process to other computers.

    Raises:
        OSError: the kernel does not tell.
    """
    own = _sockets_of(pid)
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for answer in _dump(family):
            inode = struct.unpack_from("=I", answer, ANSWER - 4)[0]
            if inode in own and not _is_within(family, answer) and (info := _info(answer)):
                found.append(_connection(answer[44:52], info))
    return found


def listener(path: str) -> int:
    """The process that listens on a Unix socket.

    Raises:
        OSError: nobody does, or the kernel does not tell.
    """
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(PATIENCE)
        asking.connect(path)
        peer_credentials = getattr(socket, "SO_PEERCRED", None)
        if peer_credentials is None:
            raise OSError("only Linux tells who listens on a socket")
        pid, _, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, peer_credentials, 12))
        return int(pid)


def _sockets_of(pid: int) -> set[int]:
    names = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            names.append(str(file.readlink()))
        except FileNotFoundError:  # closed meanwhile
            continue
    return {int(name[8:-1]) for name in names if name.startswith("socket:[")}


def _dump(family: int) -> Iterator[bytes]:
    """The kernel's answer about each established TCP connection of this host."""
    established = 1 << 1
    body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, established) + bytes(48)
    header = struct.pack("=IHHII", HEADER + len(body), SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, 1, 0)
    with socket.socket(getattr(socket, "AF_NETLINK", -1), socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(PATIENCE)
        kernel.sendto(header + body, (0, 0))
        while True:
            data = kernel.recv(RECEIVE)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == DONE:
                    return
                if kind == ERROR or length < HEADER:
                    raise OSError("the kernel does not tell of connections")
                yield data[HEADER:length]
                data = data[(length + 3) & ~3 :]


def _info(answer: bytes) -> bytes | None:
    """The `tcp_info` of an answer."""
    rest = answer[ANSWER:]
    while len(rest) >= ATTRIBUTE:
        length, kind = struct.unpack_from("=HH", rest)
        if kind == INFO and length >= ATTRIBUTE + FIELDS_END:
            return rest[ATTRIBUTE:length]
        rest = rest[max(ATTRIBUTE, (length + 3) & ~3) :]
    return None


def _connection(cookie: bytes, info: bytes) -> Connection:
    def number(kind: str, place: int) -> int:
        return int(struct.unpack_from(f"={kind}", info, place)[0])

    ahead = number("I", CONFIRMED_OUT_OF_ORDER) * number("I", MAXIMUM_SEGMENT)  # behind a packet that was lost
    return Connection(
        cookie=cookie,
        sent=number("Q", CONFIRMED) + ahead,
        received=number("Q", RECEIVED),
        waiting=number("I", NOT_SENT),
        unconfirmed=number("I", UNCONFIRMED),
        receiver_limited=number("Q", RECEIVER_LIMITED) / 1e6,
    )


def _is_within(family: int, answer: bytes) -> bool:
    """Whether both ends are on this computer."""
    own, other = answer[8:24], answer[24:40]
    if family == socket.AF_INET:
        return other[0] == 127 or own[:4] == other[:4]
    return own == other or other == bytes(15) + b"\1" or other[:13] == bytes(10) + b"\xff\xff\x7f"
