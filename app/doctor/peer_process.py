"""What is looked at in the process that may break: torch, and the peers of this machine with their passes."""

from dataclasses import dataclass
from pathlib import Path

from app.join.peer_folder import IDENTITY, PEERS, in_use

NVIDIA = Path("/dev/nvidia0")


@dataclass(frozen=True)
class TorchSeen:
    """What torch computes with."""

    version: str
    device: str  # as torch names it
    name: str  # for people
    formats: list[str]  # that are tried; the fastest is taken
    device_memory: float | None  # bytes
    idle_gpu: bool  # there is one, which torch cannot use


@dataclass(frozen=True)
class PeerSeen:
    """Who this machine is in a run, or would be, and by which addresses it last joined."""

    peer_id: str
    public_key: bytes
    addresses: list[str]


@dataclass(frozen=True)
class PassSeen:
    """A pass with which a process on this machine trains now."""

    user: str
    expires: float  # unix time, seconds
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
        version=str(torch.__version__),
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
    addresses = remembered_peers.recall(newest) if newest else []
    return PeerSeen(str(peer_id_of(public_key)), public_key, addresses)


def look_at_passes(folders: list[Path], run: str, authority: bytes) -> list[PassSeen]:
    """The newest pass in each of these folders in which a process is a peer now.

    Args:
        authority: the public key that the run's passes are checked with; empty if it is not known.
    """
    return [seen for folder in folders if in_use(folder) and (seen := _look_at_pass(folder, run, authority))]


def _look_at_pass(folder: Path, run: str, authority: bytes) -> PassSeen | None:
    from swarm.access.gate import PASS
    from swarm.access.passes import PassRefused, check_pass, read_pass
    from swarm.identity import read_key

    newest, key_file = _newest(folder, PASS), folder / IDENTITY
    if newest is None:
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
    return PassSeen(kept.user, kept.expires, good)


def _newest(folder: Path, name: str) -> Path | None:
    """The newest file of that name in the folders of runs."""
    return max(folder.glob(f"*/{name}"), key=lambda path: path.stat().st_mtime, default=None)
