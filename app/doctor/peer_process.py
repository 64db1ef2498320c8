"""Looks at what needs torch and hivemind, in a process of its own: either may be broken, hang, or end the process.

The process reads questions from its standard input, a line of JSON each, and answers each with a line.
"""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import Base64Bytes, BaseModel

from app.join.peer_folder import IDENTITY, PEERS, in_use
from swarm.errors import SahajError

NVIDIA = Path("/dev/nvidia0")


class Question(BaseModel):
    """What the process is asked, about which folders of peers, and for which run where that is known."""

    about: Literal["torch", "peer", "passes"]
    folders: list[Path] = []
    run: str = ""
    authority: Base64Bytes = b""


class TorchSeen(BaseModel):
    """What torch computes with."""

    version: str
    device: str  # as torch names it
    name: str  # for people
    formats: list[str]  # that are tried; the fastest is taken
    device_memory: float | None  # bytes
    idle_gpu: bool  # there is one, which torch cannot use


class PeerSeen(BaseModel):
    """Who this machine is in a run, or would be, and by which addresses it last joined."""

    peer_id: str
    public_key: Base64Bytes
    addresses: list[str]


class PassSeen(BaseModel):
    """A pass that a peer on this machine has kept."""

    user: str
    expires: float  # unix time, seconds
    in_use: bool  # a process trains with it now
    good: bool | None  # the run's authority gave it to this peer; None: not known


def look_at_torch() -> TorchSeen:
    """The device and its number formats."""
    import torch

    from trainer.precision import candidate_dtypes, device_name, pick_device

    device = pick_device(None)
    torch.ones(8, 8, device=device).matmul(torch.ones(8, 8, device=device)).sum().item()
    cuda = device.type == "cuda"
    has_bfloat16 = cuda and torch.cuda.is_bf16_supported(including_emulation=False)
    formats = candidate_dtypes(device.type, has_bfloat16=has_bfloat16)
    return TorchSeen(
        version=torch.__version__,
        device=str(device),
        name=device_name(device),
        formats=[str(one).removeprefix("torch.") for one in formats],
        device_memory=float(torch.cuda.get_device_properties(device).total_memory) if cuda else None,
        idle_gpu=not cuda and NVIDIA.exists(),
    )


def look_at_peer(folder: Path) -> PeerSeen:
    """The peer of a folder; one that exists for this question only where there is none.

    Raises:
        SwarmError: its key file is none.
    """
    from hivemind.utils.crypto import RSAPrivateKey

    from swarm.dht import remembered_peers
    from swarm.identity import peer_id_of, read_key

    path = folder / IDENTITY
    if path.is_file():
        with path.open("rb") as file:
            _, key = read_key(path, file)
    else:
        key = RSAPrivateKey()
    public_key = key.get_public_key().to_bytes()
    newest = _newest(folder, PEERS)
    return PeerSeen(
        peer_id=str(peer_id_of(public_key)),
        public_key=base64.b64encode(public_key),
        addresses=remembered_peers.recall(newest) if newest else [],
    )


def look_at_pass(folder: Path, run: str, authority: bytes) -> PassSeen | None:
    """The newest pass in a peer's folder; None if it has none.

    Args:
        authority: the public key that the run's passes are checked with; empty if it is not known.
    """
    from swarm.access.gate import PASS
    from swarm.access.passes import PassRefused, check_pass, read_pass
    from swarm.identity import read_key

    newest, key_file = _newest(folder, PASS), folder / IDENTITY
    if newest is None or not key_file.is_file():
        return None
    try:
        kept = read_pass(newest.read_bytes())
    except PassRefused:  # half written when the power went; joining replaces it
        return None
    with key_file.open("rb") as file:
        peer_id, _ = read_key(key_file, file)
    good: bool | None = None
    if authority:
        try:
            check_pass(kept, authority, run, peer_id, now=0.0)
            good = True
        except PassRefused:
            good = False
    return PassSeen(user=kept.user, expires=kept.expires, in_use=in_use(folder), good=good)


def answer(question: Question) -> Any:
    """What a line of the process says."""
    if question.about == "torch":
        return look_at_torch().model_dump()
    if question.about == "peer":
        return look_at_peer(question.folders[0]).model_dump(mode="json")
    seen = (look_at_pass(folder, question.run, question.authority) for folder in question.folders)
    return [one.model_dump() for one in seen if one is not None]


def main() -> None:
    """Answer until the questions end; nothing but answers goes to standard output."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            try:
                told = {"answer": answer(Question.model_validate_json(line))}
            except Exception as error:  # whatever a broken library raises
                told = {"error": _reason(error)}
            answers.write(json.dumps(told) + "\n")
            answers.flush()


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, SahajError) else f"{type(error).__name__}: {error}"


def _newest(folder: Path, name: str) -> Path | None:
    """The newest file of that name in the folders of runs."""
    return max(folder.glob(f"*/{name}"), key=lambda path: path.stat().st_mtime, default=None)
