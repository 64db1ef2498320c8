"""Names of the files in the coordinator's state folder, and how the small ones of JSON are read."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from swarm.errors import StorageError, SwarmError

T = TypeVar("T", bound=BaseModel)

ADDRESSES = "addresses.txt"  # multiaddresses of the coordinator
ADMIN_KEY = "admin.key"  # bearer token of the organizer's orders
AUTHORITY = "authority.key"  # signs passes and notices
CERTIFICATES = "https"  # the certificate with its key, and the account at the authority
CHECKPOINTS = "checkpoints"
DOWNLOADS = "from-hub"  # while a release is being fetched
EVIDENCE = "evidence"  # of what audits have proved
EXPERTS = "experts"  # states of the experts of volunteers, if the run has any
IDENTITY = "identity.key"  # of the coordinator's peer; exists once a run was opened from the folder
LEDGER = "ledger.db"  # unless the run file names another database
LOG = "log"  # updates, and snapshots to replay them from
NOTICES = "notices.json"  # what the organizer has decided
PAUSES = "pauses.json"  # machines that their persons have ordered to pause
PEERS = "peers.json"  # some peers, to find the swarm by after a restart
ROLLBACKS = "rollbacks.json"  # global steps that were undone
RANDOM = "random-embeddings"  # there if the run began with them because trainers alone have its text
REVOKED_KEYS = "revoked-keys.json"  # personal keys that are good no longer
TOLD = "told"  # there once webhooks were told that the run has begun
UNNAMED = "unnamed.txt"  # users who do not want to be named in model cards, one in a line
URL = "url.txt"  # of the HTTP service
SIGNS = (  # one is there
    *(ADMIN_KEY, AUTHORITY, CERTIFICATES, CHECKPOINTS, IDENTITY, LEDGER, LOG, NOTICES, UNNAMED),
    *(DOWNLOADS, RANDOM),  # if the first start was interrupted
)


def read_small(path: Path, kind: type[T], otherwise: str) -> T | None:
    """What a file holds; None if it is not there.

    Args:
        otherwise: what it is not, and what to do about it: the end of the error's line.

    Raises:
        StorageError: it cannot be read.
        SwarmError: it holds something else.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError:
        raise SwarmError(f"{path}: {otherwise}") from None
