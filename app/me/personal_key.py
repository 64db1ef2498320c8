"""Gets a personal key from the coordinator: for a Hub token, or for the identity of a machine that has joined."""

import base64
import time
from pathlib import Path

from pydantic import ValidationError

from app.join.coordinator_client import CoordinatorClient
from app.join.hub_token import check_token, find_token
from app.join.peer_folder import IDENTITY, peer_folders
from app.join.problems import JoinProblem, ProblemKind
from swarm.access.key_messages import KeyAnswer, KeyRequest, to_sign
from swarm.identity import read_key

PATH = "/api/me/key"


def ask_for_key(client: CoordinatorClient, state: Path | None, *, allow_write_token: bool = False) -> KeyAnswer:
    """A personal key for the user of a Hub token, or else for the peer in a folder of this machine.

    Args:
        state: folder of the peer; by default the first one of this run, one in use before others.

    Raises:
        SahajError: there is neither a token nor a peer, or the coordinator does not give a key.
    """
    run_name = client.run_name()  # follows a redirect to HTTPS
    token = find_token() if state is None else None
    if token is not None:
        check_token(token, allow_write=allow_write_token)
        return _read(client, client.ask("POST", PATH, bearer=token.value))
    folders = peer_folders(client.base) if state is None else [state]
    if not folders or not (folders[0] / IDENTITY).is_file():
        where = f"{state}: no peer's folder" if state else f"{client.base}: no peer of this run on this machine"
        raise JoinProblem(ProblemKind.TOKEN_MISSING, f"{where}; join first, or set HF_TOKEN to a token of yours")
    request = sign_request(folders[0] / IDENTITY, run_name, time.time())
    return _read(client, client.ask("POST", PATH, body=request.model_dump(mode="json")))


def sign_request(identity: Path, run_name: str, now: float) -> KeyRequest:
    """What a machine asks with; its peer may be running meanwhile.

    Args:
        now: unix time in seconds.

    Raises:
        SahajError: the file holds no identity.
    """
    with identity.open("rb") as file:
        peer_id, private_key = read_key(identity, file)
    signature = private_key.sign(to_sign(run_name, str(peer_id), now))
    return KeyRequest(
        # pydantic takes bytes of this kind in base64
        public_key=base64.b64encode(private_key.get_public_key().to_bytes()),
        time=now,
        signature=base64.b64encode(signature),
    )


def _read(client: CoordinatorClient, content: bytes) -> KeyAnswer:
    try:
        return KeyAnswer.model_validate_json(content)
    except ValidationError:
        reason = f"{client.base}: not a Sahaj coordinator, or of another version; check the link"
        raise JoinProblem(ProblemKind.NOT_A_COORDINATOR, reason) from None
