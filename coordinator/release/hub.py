"""A model repository on the Hub, as releases need it: one commit each; every error is one line.

Large files are uploaded before the commit, one after the other, and stored under their hashes. After a broken
connection only what is missing is sent, and readers see the old revision until the commit has happened.
"""

import contextlib
import functools
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, constants, set_client_factory
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import validate_repo_id
from huggingface_hub.utils._http import default_client_factory

from coordinator.checkpoints.checkpoint import STATE, CheckpointError, TrainerState, read_state
from swarm.errors import SahajError, in_a_line
from swarm.files import NOT_STORAGE
from swarm.logging.logs import silence_hugging_face
from swarm.secret_variables import hub_token

TIMEOUT = 60.0  # seconds without a byte after which a connection counts as broken; huggingface_hub has no limit
TOKENS = "https://huggingface.co/settings/tokens"
# what the Hub names when it refuses a model card
CARD_ERROR = re.compile(r'README\.md|metadata|"(license|language|tags|datasets|widget|model-index)')

NOT_ALLOWED = {  # by the status of the Hub's answer
    401: "the Hub does not know the Hugging Face token",
    403: "this Hugging Face token may not write there",
    404: "the Hub shows no such repository to this token",
}


class ReleaseError(SahajError):
    """A release could not be written or read. It may work later."""

    exit_status = 60


class NotAllowed(ReleaseError):
    """The organizer has to act first: the token is missing or may not write, or the name is wrong."""

    exit_status = 61


@dataclass(frozen=True)
class Head:
    """The newest revision of a repository and its files; `state` is None where it is no release of ours."""

    commit: str
    state: TrainerState | None
    files: frozenset[str] = frozenset()


class HubRepository:
    """A model repository at `HF_ENDPOINT`. The token is looked up for each call and stored nowhere."""

    def __init__(self, name: str, *, private: bool = False):
        silence_hugging_face()
        constants.HF_HUB_DISABLE_XET = True  # the other protocol for large files; untested here
        _limit_waits()
        self.name, self._private = name, private

    @property
    def url(self) -> str:
        """Where people find it."""
        return f"{self._api.endpoint.rstrip('/')}/{self.name}"

    def open(self) -> None:
        """Create the repository if it is missing, and check that we may write to it.

        Raises:
            NotAllowed: there is no token, it may not write there, or a public repository should be private.
            ReleaseError: the Hub cannot be reached.
        """
        if not _token():
            raise NotAllowed(
                f"{self.name}: there is no Hugging Face token; make one with write permission at {TOKENS} and give it "
                "with `hf auth login` or in HF_TOKEN"
            )
        with self._one_line_errors():
            self._api.create_repo(self.name, private=self._private, exist_ok=True)
            self._api.auth_check(self.name, write=True)
            if self._private and not self._api.model_info(self.name).private:
                raise NotAllowed(
                    f"{self.name} was to be private, but is there already and public; make it private at "
                    f"{self.url}/settings, or name another repository"
                )

    def head(self) -> Head | None:
        """Its newest revision; None where there is no such repository, or the token may not read it.

        Raises:
            NotAllowed: the token is not valid.
            ReleaseError: the Hub cannot be reached.
        """
        with self._one_line_errors():
            try:
                info = self._api.model_info(self.name)
            except RepositoryNotFoundError:
                return None
            assert info.sha is not None, "each repository has a first commit"
            files = frozenset(one.rfilename for one in info.siblings or ())
            state = None
            if STATE in files:
                with tempfile.TemporaryDirectory() as folder, contextlib.suppress(CheckpointError):
                    self._api.hf_hub_download(self.name, STATE, revision=info.sha, local_dir=folder)
                    state = read_state(Path(folder))
            return Head(info.sha, state, files)

    def check_card(self, text: str) -> None:
        """Check that the Hub accepts a model card.

        Raises:
            NotAllowed: it does not.
            ReleaseError: the Hub cannot be reached.
        """
        with self._one_line_errors():
            self._api._validate_yaml(text)  # `create_commit` would ask this only after the large files are sent

    def tags(self) -> dict[str, str]:
        """Commits by the names of their tags.

        Raises:
            NotAllowed, ReleaseError: as `open`.
        """
        with self._one_line_errors():
            return {one.name: one.target_commit for one in self._api.list_repo_refs(self.name).tags}

    def send(
        self, files: Mapping[str, Path | bytes], goes_on: Callable[[], bool] = lambda: True
    ) -> list[CommitOperationAdd]:
        """Upload the large files, which nobody sees before the commit; those that are at the Hub are not sent again.

        Args:
            goes_on: called before each file; if it returns False, the upload stops.

        Raises:
            NotAllowed, ReleaseError: as `open`; or the upload was stopped.
        """
        operations = []
        with self._one_line_errors():
            for name, content in files.items():
                if not goes_on():
                    raise ReleaseError("it was interrupted")
                operations.append(CommitOperationAdd(name, content))
                # one at a time: several would use a pool of threads, for which the end of this process waits
                self._api.preupload_lfs_files(self.name, operations[-1:], free_memory=False)
        return operations

    def commit(
        self,
        sent: list[CommitOperationAdd],
        message: str,
        description: str,
        *,
        after: str | None = None,
        without: Collection[str] = (),
    ) -> str:
        """Make everything that `send` has uploaded visible at once; returns the commit.

        Args:
            after: the parent commit; it fails if there is a newer one.
            without: files of the parent that are deleted.

        Raises:
            NotAllowed, ReleaseError: as `open`; or somebody else has changed the repository.
        """
        with self._one_line_errors():
            done = self._api.create_commit(
                self.name,
                [*sent, *map(CommitOperationDelete, sorted(without))],
                commit_message=message,
                commit_description=description,
                parent_commit=after,
            )
        return str(done.oid)

    def tag(self, tag: str, commit: str) -> None:
        """Tag a commit. A tag that exists is not moved.

        Raises:
            NotAllowed, ReleaseError: as `open`.
        """
        with self._one_line_errors():
            self._api.create_tag(self.name, tag=tag, revision=commit, exist_ok=True)

    def download(self, folder: Path, commit: str, names: list[str]) -> None:
        """Fetch files of a commit; what is in the folder already is not fetched again.

        Raises:
            NotAllowed, ReleaseError: as `open`.
        """
        with self._one_line_errors():
            self._api.snapshot_download(self.name, revision=commit, local_dir=folder, allow_patterns=names)

    @property
    def _api(self) -> HfApi:
        return HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=_token())

    @contextlib.contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        """Turn errors of the Hub, the network and the disk into a `ReleaseError` of one line, but not bugs."""
        try:
            yield
            return
        except SahajError:
            raise
        except Exception as error:
            if (problem := describe(error, self.name)) is None:
                raise
        raise problem  # outside of the handler: errors of the library carry requests with their headers


def check_name(name: str) -> None:
    """Refuse an invalid name of a repository.

    Raises:
        NotAllowed: it is invalid.
    """
    with contextlib.suppress(HFValidationError):
        validate_repo_id(name)
        if name.count("/") == 1:
            return
    raise _invalid_name(name)


def describe(error: BaseException, name: str) -> ReleaseError | None:
    """The one-line form of an error of the Hub, the network or the disk; None if it is a bug."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    if isinstance(error, ValueError) and CARD_ERROR.search(str(error)):
        told = getattr(error, "server_message", None) or error
        way_out = "correct the release section of the run file"
        return NotAllowed(f"{name}: the Hub refuses the model card ({in_a_line(told)}); {way_out}")
    http = next((one for one in chain if isinstance(one, HfHubHTTPError)), None)
    if http is not None:
        return _describe_status(http, name)
    if any(isinstance(one, HFValidationError) for one in chain):
        return _invalid_name(name)
    if any(isinstance(one, OfflineModeIsEnabled) for one in chain):
        return NotAllowed(f"{name}: HF_HUB_OFFLINE is set; unset it to reach the Hub")
    # the last is of a download, where there is nothing in the cache
    if any(isinstance(one, (httpx2.HTTPError, *NOT_STORAGE, LocalEntryNotFoundError)) for one in chain):
        reason = type(chain[-1]).__name__
        return ReleaseError(f"{name}: the Hub cannot be reached ({reason}); check this machine's connection")
    disk = next((one for one in chain if isinstance(one, OSError)), None)
    if disk is not None:
        where = f"{disk.filename}: " if disk.filename else ""
        return ReleaseError(f"{name}: {where}{disk.strerror or in_a_line(disk)}")
    if isinstance(error, ValueError):
        return ReleaseError(f"{name}: the Hub refuses ({in_a_line(error)})")
    return None


def _invalid_name(name: str) -> NotAllowed:
    return NotAllowed(f"{name} is not a valid repository name; give owner/name")


def _describe_status(error: HfHubHTTPError, name: str) -> ReleaseError:
    status = 404 if isinstance(error, RepositoryNotFoundError) else error.response.status_code
    way_out = f"make a token with write permission for it at {TOKENS} and give it with `hf auth login` or in HF_TOKEN"
    if error.server_message:
        way_out += f" (the Hub says: {in_a_line(error.server_message)})"
    if status in NOT_ALLOWED:
        return NotAllowed(f"{name}: {NOT_ALLOWED[status]}; {way_out}")
    if status == 412:
        return ReleaseError(f"{name}: somebody else changed it in the meantime")
    if status == 429:
        return ReleaseError(f"{name}: the Hub is limiting requests (429)")
    if status >= 500:
        return ReleaseError(f"{name}: the Hub is failing (status {status})")
    return ReleaseError(f"{name}: the Hub refuses ({status}: {in_a_line(error.server_message or error)})")


def _token() -> str | None:
    with contextlib.suppress(Exception):  # it may come over the network, too
        return hub_token()
    return None


@functools.cache
def _limit_waits() -> None:
    """Set a timeout for all connections of huggingface_hub in this process, also for later ones."""

    def client() -> Any:
        made = default_client_factory()
        made.event_hooks["request"].append(_limit_wait)
        return made

    set_client_factory(client)


def _limit_wait(request: Any) -> None:
    if (request.extensions.get("timeout") or {}).get("read") is None:
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), TIMEOUT)
