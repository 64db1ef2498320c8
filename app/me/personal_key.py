"""Gets a personal key from the coordinator: for a Hub token, or for the identity of a machine that has joined."""

import base64
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from app.join.background.page_orders import FILE_NAME, kept_pass
from app.join.coordinator_client import Access, CoordinatorClient
from app.join.hub_token import check_token, find_token
from app.join.peer_folder import IDENTITY, peer_folders
from app.join.problems import JoinProblem, ProblemKind
from app.join.volunteer import warning_about_token
from swarm.access.key_messages import KeyAnswer, KeyRequest, to_sign
from swarm.access.passes import PassRefused, read_pass
from swarm.errors import StorageError
from swarm.files import lookup_errors
from swarm.identity import read_key
from swarm.language import _

PATH = "/api/me/key"


def ask_for_key(
    client: CoordinatorClient,
    run_name: str,
    state: Path | None,
    say: Callable[[str], None],
    *,
    allow_write_token: bool = False,
) -> KeyAnswer:
    """A personal key for the user of a Hub token, or else for the peer in a folder of this machine.

    Args:
        run_name: as the coordinator has told it.
        state: folder of the peer; by default the first one of this run, one in use before others.
        say: tells that others could read the token on its way.

    Raises:
        SahajError: there is neither a token nor a peer, or the coordinator does not give a key.
    """
    folders = peer_folders(client.base) if state is None else [state]
    has_chosen_name = bool(folders) and is_of_chosen_name(kept_pass(folders[0] / FILE_NAME))
    token = None if state is not None or has_chosen_name else find_token()
    if token is not None:
        if warning := warning_about_token(Access(), None, client.base):
            say(warning)
        check_token(token, allow_write=allow_write_token)
        return client.parse(KeyAnswer, client.ask("POST", PATH, bearer=token.value))
    with lookup_errors(state or client.base, StorageError):
        has_joined = bool(folders) and (folders[0] / IDENTITY).is_file()
    if not has_joined:
        told = (
            _("{place}: not the folder of a peer; join first, or set HF_TOKEN to a token of yours")
            if state
            else _("{place}: this machine has not joined this run; join first, or set HF_TOKEN to a token of yours")
        )
        raise JoinProblem(ProblemKind.TOKEN_MISSING, told.format(place=state or client.base))
    request = sign_request(folders[0] / IDENTITY, run_name, time.time())
    return client.parse(KeyAnswer, client.ask("POST", PATH, body=request.model_dump(mode="json")))


def is_of_chosen_name(kept: bytes | None) -> bool:
    """Whether a pass is for a name of its person's own choice: they have not shown their login, and it stays so."""
    with contextlib.suppress(PassRefused):
        return kept is not None and not read_pass(kept).verified
    return False


def sign_request(identity: Path, run_name: str, now: float) -> KeyRequest:
    """What a machine asks with; its peer may be running meanwhile.

    Args:
        now: unix time in seconds.

    Raises:
        SahajError: the file holds no identity.
    """
    with lookup_errors(identity, StorageError), identity.open("rb") as file:
        peer_id, private_key = read_key(identity, file)
    signature = private_key.sign(to_sign(run_name, str(peer_id), now))
    return KeyRequest(
        # pydantic takes bytes of this kind in base64
        public_key=base64.b64encode(private_key.get_public_key().to_bytes()),
        time=now,
        signature=base64.b64encode(signature),
    )
