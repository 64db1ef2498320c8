"""What the Hub's stand-in keeps of repositories: revisions that never change, large files, and names for revisions."""

import hashlib
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["read", "write", "fineGrained"]


@dataclass(frozen=True)
class Account:
    """Who a token belongs to; a fine-grained one has no permissions."""

    name: str
    organizations: tuple[str, ...] = ()
    role: Role = "fineGrained"
    kind: Literal["user", "org"] = "user"

    def may_write(self, owner: str) -> bool:
        """Whether the token may change the repositories of a user or an organization."""
        return self.is_member(owner) and self.role == "write"

    def is_member(self, name: str) -> bool:
        """Whether the token sees what is private in a repository, or of a user or an organization."""
        owner = name.partition("/")[0]
        return owner == self.name or owner in self.organizations


@dataclass(frozen=True)
class File:
    """A file of a revision; `large` ones lie apart from the others, under their sum."""

    content: bytes
    large: bool

    @property
    def sha256(self) -> str:
        """The name under which a large file lies."""
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self) -> str:
        """The name of the blob, as git makes it; of a large file that of its pointer."""
        content = self.content
        if self.large:
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(content)}\n"
            content = pointer.encode()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass(frozen=True)
class Revision:
    """A commit with all its files."""

    oid: str
    title: str
    message: str
    files: Mapping[str, File]


@dataclass
class Repository:
    """A repository of a model."""

    name: str
    private: bool
    revisions: list[Revision] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> Revision:
        """The newest revision."""
        return self.revisions[-1]

    def find(self, revision: str) -> Revision | None:
        """The revision of a branch, a tag or a commit."""
        oid = self.head.oid if revision in ("main", "HEAD") else self.tags.get(revision, revision)
        return next((one for one in self.revisions if one.oid == oid), None)

    def commit(self, title: str, message: str, files: Mapping[str, File | None]) -> Revision:
        """Add a revision with these files changed; None: no more there."""
        before = self.revisions[-1].files if self.revisions else {}
        after = {path: file for path, file in {**before, **files}.items() if file is not None}
        revision = Revision(secrets.token_hex(20), title, message, after)
        self.revisions.append(revision)
        return revision


@dataclass
class Line:
    """What happens to the bodies of requests on their way. It may be changed at any time."""

    cut_after: int | None = None  # bytes; the connection is closed there
    held_after: int | None = None  # bytes; nothing is read any more until `go_on`
    answered: bool = True  # or the connection is closed once what was asked for is done
    holding: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)


@dataclass
class Repositories:
    """All of them, the large files that were uploaded, and the trouble that is to come."""

    by_name: dict[str, Repository] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)  # large files, by their sums
    received: list[str] = field(default_factory=list)  # sums of large files, each time one has come as a whole
    troubles: deque[tuple[str, int]] = field(default_factory=deque)  # a pattern of method and path, and a status
    lines: deque[tuple[str, Line]] = field(default_factory=deque)  # the same for the next request that matches
    lock: threading.RLock = field(default_factory=threading.RLock)

    def create(self, name: str, *, private: bool = False) -> Repository:
        """A new repository; the Hub begins each with a file that says which others are large."""
        with self.lock:
            repository = self.by_name[name] = Repository(name, private)
            repository.commit("initial commit", "", {".gitattributes": File(b"*.safetensors filter=lfs\n", False)})
            return repository

    def line_of(self, method: str, path: str) -> Line:
        """What happens on the way to this request; the trouble is over with it."""
        with self.lock:
            for one in list(self.lines):
                if re.search(one[0], f"{method} {path}"):
                    self.lines.remove(one)
                    return one[1]
        return Line()

    def trouble_of(self, method: str, path: str) -> int | None:
        """With which status this request fails, if it is to fail; the trouble is over with it."""
        with self.lock:
            for one in list(self.troubles):
                if re.search(one[0], f"{method} {path}"):
                    self.troubles.remove(one)
                    return one[1]
        return None


def moment() -> str:
    """Now, as the Hub writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
