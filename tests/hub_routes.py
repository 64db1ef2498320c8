"""What the Hub's stand-in answers about repositories: the protocol of `huggingface_hub`, for models.

Large files come by the LFS protocol (batch, one PUT or several, verify) and are fetched from another host, as those of
the Hub are; a commit is a list of JSON lines.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property
from io import BufferedIOBase
from typing import Any
from urllib.parse import parse_qs, unquote

import yaml

from tests.hub_repositories import Account, File, Line, Repositories, Repository, Revision, moment

NAME = r"(?P<name>[\w.-]+/[\w.-]+)"
BLOCK = 1 << 14  # bytes
LARGE = re.compile(r"\.(safetensors|pt|bin|png)$")


@dataclass(frozen=True)
class Asked:
    """A request."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        """Without the question."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, list[str]]:
        """The question."""
        return parse_qs(self.target.partition("?")[2])

    @cached_property
    def token(self) -> str:
        """The one that was shown, or none."""
        named = {name.lower(): value for name, value in self.headers.items()}
        return named.get("authorization", "").removeprefix("Bearer ")

    def content(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """A response; `length` is that of the body, also where HEAD leaves it out."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json; charset=utf-8"})

    @property
    def length(self) -> int:
        """Bytes."""
        return len(self.body)

    @classmethod
    def json(cls, content: object, status: int = 200) -> "Answer":
        """Data."""
        return cls(status, json.dumps(content).encode())

    @classmethod
    def problem(cls, status: int, message: str, code: str = "") -> "Answer":
        """As the Hub says what is wrong."""
        headers = {"Content-Type": "application/json; charset=utf-8", "X-Error-Message": message}
        return cls(status, json.dumps({"error": message}).encode(), headers | ({"X-Error-Code": code} if code else {}))


Route = Callable[["House", re.Match[str], Asked], Answer]


@dataclass(frozen=True)
class House:
    """Who asks, and what there is."""

    repositories: Repositories
    url: str
    account: Account | None

    def repository(self, found: re.Match[str]) -> Repository | None:
        """The one that is asked for, if whoever asks may see it."""
        one = self.repositories.by_name.get(found["name"])
        if one is not None and one.private and not (self.account and _is_member(self.account, one.name)):
            return None
        return one

    def may_write(self, found: re.Match[str]) -> bool:
        """Whether whoever asks may change it."""
        return self.account is not None and self.account.may_write(found["name"].partition("/")[0])


def read_body(stream: BufferedIOBase, headers: Message, line: Line) -> bytes | None:
    """The body of a request, or None where the line is cut in the middle of it."""
    body = bytearray()
    for block in _blocks(stream, headers):
        body += block
        if line.cut_after is not None and len(body) > line.cut_after:
            return None
        if line.held_after is not None and len(body) > line.held_after:
            line.holding.set()
            line.go_on.wait(60.0)
    expected = headers.get("Content-Length")
    if expected is not None and len(body) < int(expected):
        return None  # whoever sends has died
    return bytes(body)


def _blocks(stream: BufferedIOBase, headers: Message) -> Any:
    if headers.get("Transfer-Encoding", "").lower() == "chunked":
        while size := int(stream.readline().split(b";")[0] or b"0", 16):
            yield stream.read(size)
            stream.readline()
        stream.readline()
        return
    left = int(headers.get("Content-Length") or 0)
    while left and (block := stream.read(min(left, BLOCK))):
        left -= len(block)
        yield block


def answer_about_repositories(repositories: Repositories, url: str, asked: Asked, account: Account | None) -> Answer:
    """What the Hub says; readers see whole revisions alone."""
    if (status := repositories.trouble_of(asked.method, asked.path)) is not None:
        return Answer.problem(status, "the stand-in was told to fail")
    house = House(repositories, url, account)
    with repositories.lock:
        for method, pattern, route, writes in _ROUTES:
            found = re.fullmatch(pattern, asked.path)
            if found is None or method != ("GET" if asked.method == "HEAD" else asked.method):
                continue
            if "name" in found.groupdict() and house.repository(found) is None:
                return Answer.problem(401 if account is None else 404, "Repository not found", "RepoNotFound")
            if writes and not house.may_write(found):
                return Answer.problem(403, "You don't have the rights to change this repository")
            return route(house, found, asked)
    return Answer.problem(404, "Sorry, we can't find the page you are looking for.")


def _create(house: House, found: re.Match[str], asked: Asked) -> Answer:
    wanted = asked.content()
    if house.account is None:
        return Answer.problem(401, "Invalid username or password.")
    owner = wanted["organization"] or house.account.name
    name = f"{owner}/{wanted['name']}"
    if not house.account.may_write(owner):
        return Answer.problem(403, f"You don't have the rights to create a model under the namespace {owner!r}")
    there = name in house.repositories.by_name
    if not there:
        house.repositories.create(name, private=wanted.get("visibility") == "private")
    answer = {"url": f"{house.url}/{name}", "name": name, "id": name}
    return Answer.json(
        answer | ({"error": "You already created this model repo"} if there else {}), 409 if there else 200
    )


def _check(house: House, found: re.Match[str], asked: Asked) -> Answer:
    return Answer.json({})


def _validate(house: House, found: re.Match[str], asked: Asked) -> Answer:
    """The metadata of a card: what is between its first two lines of dashes."""
    wanted = asked.content()
    header = re.match(r"\s*---[^\n]*\n(.*?)\n---", wanted["content"], re.DOTALL)
    errors, notes = [], []
    try:
        metadata = yaml.safe_load(header[1]) if header else None
    except yaml.YAMLError as error:
        return Answer.json({"errors": [{"message": f"YAML: {error}"}], "warnings": []}, 400)
    if metadata is None:
        notes.append("empty or missing yaml metadata in repo card")
    for key, kind in (("language", (str, list)), ("license", (str, list)), ("tags", list), ("datasets", list)):
        if metadata and metadata.get(key) is not None and not isinstance(metadata[key], kind):
            errors.append(f'"{key}" must be of another type')
    results = [result for one in (metadata or {}).get("model-index") or [] for result in one["results"]]
    if not all({"task", "dataset", "metrics"} <= result.keys() for result in results):
        errors.append('"model-index" lacks a task, a dataset or metrics')
    answer = {"errors": [{"message": one} for one in errors], "warnings": [{"message": one} for one in notes]}
    return Answer.json(answer, 400 if errors else 200)


def _preupload(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository = house.repository(found)
    assert repository is not None
    files = []
    for one in asked.content()["files"]:
        there = repository.head.files.get(one["path"])
        large = bool(LARGE.search(one["path"]))
        oid = (there.sha256 if there.large else there.oid) if there else None
        mode = "lfs" if large else "regular"
        files.append({"path": one["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
    return Answer.json({"files": files})


def _batch(house: House, found: re.Match[str], asked: Asked) -> Answer:
    objects = []
    wanted = asked.content()
    for one in wanted["objects"]:
        oid, size, known = one["oid"], one["size"], house.repositories.stored
        told: dict[str, Any] = {"oid": oid, "size": size, "authenticated": True}
        if oid not in known:
            upload: dict[str, Any] = {"href": f"{house.url}/lfs/{oid}"}
            part = house.repositories.part_size
            if part is not None and size > part and "multipart" in wanted["transfers"]:
                numbers = range(1, math.ceil(size / part) + 1)
                upload = {"href": f"{house.url}/lfs/{oid}/complete"}
                upload["header"] = {"chunk_size": str(part)} | {
                    str(number): f"{house.url}/lfs/{oid}/{number}" for number in numbers
                }
            told["actions"] = {"upload": upload, "verify": {"href": f"{house.url}/lfs/{oid}/verify"}}
        objects.append(told)
    return Answer.json({"transfer": "basic", "objects": objects})


def _put(house: House, found: re.Match[str], asked: Asked) -> Answer:
    if hashlib.sha256(asked.body).hexdigest() != found["oid"]:
        return Answer.problem(400, "The content is not what was announced")
    house.repositories.stored[found["oid"]] = asked.body
    house.repositories.received.append(found["oid"])
    return Answer(200)


def _put_part(house: House, found: re.Match[str], asked: Asked) -> Answer:
    house.repositories.parts[found["oid"], int(found["part"])] = asked.body
    return Answer(200, headers={"ETag": f'"{hashlib.md5(asked.body).hexdigest()}"'})


def _complete(house: House, found: re.Match[str], asked: Asked) -> Answer:
    oid, parts = found["oid"], house.repositories.parts
    content = b"".join(parts[oid, one["partNumber"]] for one in asked.content()["parts"])
    if hashlib.sha256(content).hexdigest() != oid:
        return Answer.problem(400, "The parts are not what was announced")
    house.repositories.stored[oid] = content
    house.repositories.received.append(oid)
    return Answer.json({})


def _verify(house: House, found: re.Match[str], asked: Asked) -> Answer:
    there = found["oid"] in house.repositories.stored
    return Answer.json({}) if there else Answer.problem(404, "The file has not arrived")


def _commit(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository = house.repository(found)
    assert repository is not None
    header, *operations = [json.loads(line) for line in asked.body.splitlines()]
    parent = header["value"].get("parentCommit")
    if parent is not None and parent != repository.head.oid:
        return Answer.problem(412, "A commit has happened since. Please refresh and try again.")
    files: dict[str, File] = {}
    for one in operations:
        value = one["value"]
        if one["key"] == "file":
            files[value["path"]] = File(base64.b64decode(value["content"]), False)
        elif one["key"] == "lfsFile":
            if value["oid"] not in house.repositories.stored:
                return Answer.problem(400, f"The large file {value['oid']} was not uploaded")
            files[value["path"]] = File(house.repositories.stored[value["oid"]], True)
        else:
            return Answer.problem(400, f"unknown operation {one['key']}")
    revision = repository.commit(header["value"]["summary"], header["value"]["description"], files)
    url = f"{house.url}/{repository.name}/commit/{revision.oid}"
    return Answer.json({"success": True, "commitOid": revision.oid, "commitUrl": url, "hookOutput": ""})


def _tag(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository, tag = house.repository(found), asked.content()["tag"]
    assert repository is not None
    revision = repository.find(unquote(found["revision"]))
    if revision is None:
        return _no_revision()
    if tag in repository.tags:
        return Answer.problem(409, "Tag already exists")
    repository.tags[tag] = revision.oid
    return Answer.json({})


def _refs(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository = house.repository(found)
    assert repository is not None
    tags = [{"name": one, "ref": f"refs/tags/{one}", "targetCommit": oid} for one, oid in repository.tags.items()]
    head = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.head.oid}
    return Answer.json({"branches": [head], "tags": tags, "converts": [], "pullRequests": []})


def _commits(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository = house.repository(found)
    assert repository is not None
    told = [{"id": one.oid, "title": one.title, "message": one.message} for one in reversed(repository.revisions)]
    return Answer.json([one | {"date": moment(), "authors": [{"user": "somebody"}]} for one in told])


def _info(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository = house.repository(found)
    assert repository is not None
    revision = repository.find(unquote(found.groupdict().get("revision") or "main"))
    if revision is None:
        return _no_revision()
    return Answer.json(
        {
            "_id": "0" * 24,
            "id": repository.name,
            "modelId": repository.name,
            "sha": revision.oid,
            "private": repository.private,
            "disabled": False,
            "gated": False,
            "lastModified": moment(),
            "createdAt": moment(),
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [{"rfilename": path} for path in sorted(revision.files)],
        }
    )


def _tree(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository, folder = house.repository(found), unquote(found["path"] or "").strip("/")
    assert repository is not None
    revision = repository.find(unquote(found["revision"]))
    if revision is None:
        return _no_revision()
    entries: list[dict[str, Any]] = []
    for path, file in sorted(revision.files.items()):
        if folder and not path.startswith(f"{folder}/"):
            continue
        entry: dict[str, Any] = {"type": "file", "oid": file.oid, "size": len(file.content), "path": path}
        if file.large:
            entry["lfs"] = {"oid": file.sha256, "size": len(file.content), "pointerSize": 134}
        entries.append(entry)
    if folder and not entries:
        return Answer.problem(404, f"{folder} does not exist on {found['revision']!r}", "EntryNotFound")
    return Answer.json(entries)


def _resolve(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository = house.repository(found)
    assert repository is not None
    revision = repository.find(unquote(found["revision"]))
    if revision is None:
        return _no_revision()
    file = revision.files.get(unquote(found["path"]))
    known = {"X-Repo-Commit": revision.oid}
    if file is None:
        missing = Answer.problem(404, "Entry not found", "EntryNotFound")
        return Answer(missing.status, missing.body, {**missing.headers, **known})
    if file.large:  # it lies at another host
        elsewhere = house.url.replace("127.0.0.1", "localhost")
        linked = {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(len(file.content))}
        return Answer(302, b"", known | linked | {"Location": f"{elsewhere}/stored/{file.sha256}"})
    return _bytes(file.content, known | {"ETag": f'"{file.oid}"'}, asked)


def _stored(house: House, found: re.Match[str], asked: Asked) -> Answer:
    content = house.repositories.stored.get(found["oid"])
    return (
        Answer.problem(404, "not found") if content is None else _bytes(content, {"ETag": f'"{found["oid"]}"'}, asked)
    )


def _bytes(content: bytes, headers: Mapping[str, str], asked: Asked) -> Answer:
    """All of it, or the range that is asked for, as of a download that goes on."""
    named = {name.lower(): value for name, value in asked.headers.items()}
    kind = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", named.get("range", ""))
    if wanted is None or int(wanted[1]) >= len(content):
        return Answer(200, content, {**kind, **headers})
    part = content[int(wanted[1]) : int(wanted[2]) + 1 if wanted[2] else None]
    span = f"bytes {wanted[1]}-{int(wanted[1]) + len(part) - 1}/{len(content)}"
    return Answer(206, part, {**kind, **headers, "Content-Range": span})


def _no_revision() -> Answer:
    return Answer.problem(404, "Invalid rev id", "RevisionNotFound")


def _is_member(account: Account, name: str) -> bool:
    owner = name.partition("/")[0]
    return owner == account.name or owner in account.organizations


__all__ = ["Answer", "Asked", "Revision", "answer_about_repositories", "read_body"]

# method, path, what answers, whether it changes the repository
_ROUTES: tuple[tuple[str, str, Route, bool], ...] = (
    ("POST", "/api/repos/create", _create, False),
    ("POST", "/api/validate-yaml", _validate, False),
    ("GET", f"/api/models/{NAME}/auth-check/write", _check, True),
    ("GET", f"/api/models/{NAME}/auth-check", _check, False),
    ("POST", f"/api/models/{NAME}/preupload/[^/]+", _preupload, True),
    ("POST", f"/{NAME}\\.git/info/lfs/objects/batch", _batch, True),
    ("POST", f"/api/models/{NAME}/commit/main", _commit, True),
    ("POST", f"/api/models/{NAME}/tag/(?P<revision>[^/]+)", _tag, True),
    ("GET", f"/api/models/{NAME}/refs", _refs, False),
    ("GET", f"/api/models/{NAME}/commits/main", _commits, False),
    ("GET", f"/api/models/{NAME}/tree/(?P<revision>[^/]+)(?P<path>/.*)?", _tree, False),
    ("GET", f"/api/models/{NAME}/revision/(?P<revision>[^/]+)", _info, False),
    ("GET", f"/api/models/{NAME}", _info, False),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", _put, False),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})/(?P<part>\d+)", _put_part, False),
    ("POST", r"/lfs/(?P<oid>[0-9a-f]{64})/complete", _complete, False),
    ("POST", r"/lfs/(?P<oid>[0-9a-f]{64})/verify", _verify, False),
    ("GET", r"/stored/(?P<oid>[0-9a-f]{64})", _stored, False),
    ("GET", f"/{NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", _resolve, False),
)
