"""What the Hub's stand-in answers about repositories: the protocol of `huggingface_hub`, for models.

A commit is a list of JSON lines. Large files (`tests/support/hub/large_files.py`) come before it, and are fetched from
another host, as those of the Hub are.
"""

import base64
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import yaml

from tests.support.hub import large_files as large
from tests.support.hub.repositories import Account, File, Repositories, moment
from tests.support.hub.requests import Answer, Asked, House

NAME = r"(?P<name>[\w.-]+/[\w.-]+)"
LICENCES = ("apache-2.0", "mit", "cc-by-4.0", "cc-by-sa-3.0", "cc-by-sa-4.0", "other")  # some of those it knows
LANGUAGES = ("bn", "de", "en", "eo", "hi", "sw", "multilingual")
LARGE = re.compile(r"\.(safetensors|pt|bin|png)$")


Route = Callable[[House, re.Match[str], Asked], Answer]


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
    errors, notes = _of_card(asked.content()["content"])
    answer = {"errors": [{"message": one} for one in errors], "warnings": [{"message": one} for one in notes]}
    return Answer.json(answer, 400 if errors else 200)


def _of_card(text: str) -> tuple[list[str], list[str]]:
    """Errors and warnings about the metadata of a card: what is between its first two lines of dashes."""
    header = re.match(r"\s*---[^\n]*\n(.*?)\n---", text, re.DOTALL)
    errors: list[str] = []
    try:
        metadata = yaml.safe_load(header[1]) if header else None
    except yaml.YAMLError as error:
        return [f"YAML: {error}"], []
    if metadata is None:
        return [], ["empty or missing yaml metadata in repo card"]
    for key, kind in (("language", (str, list)), ("license", (str, list)), ("tags", list), ("datasets", list)):
        if metadata.get(key) is not None and not isinstance(metadata[key], kind):
            errors.append(f'"{key}" must be of another type')
    for key, known in (("license", LICENCES), ("language", LANGUAGES)):
        if metadata.get(key) is not None and metadata[key] not in known:
            errors.append(f'"{key}" must be one of [{", ".join(known)}]')
    results = [result for one in metadata.get("model-index") or [] for result in one["results"]]
    if not all({"task", "dataset", "metrics"} <= result.keys() for result in results):
        errors.append('"model-index" lacks a task, a dataset or metrics')
    return errors, []


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


def _commit(house: House, found: re.Match[str], asked: Asked) -> Answer:
    repository = house.repository(found)
    assert repository is not None
    header, *operations = [json.loads(line) for line in asked.body.splitlines()]
    parent = header["value"].get("parentCommit")
    if parent is not None and parent != repository.head.oid:
        return Answer.problem(412, "A commit has happened since. Please refresh and try again.")
    files: dict[str, File | None] = {}
    for one in operations:
        value = one["value"]
        if one["key"] == "file":
            file = files[value["path"]] = File(base64.b64decode(value["content"]), False)
            errors, _ = _of_card(file.content.decode()) if value["path"] == "README.md" else ([], [])
            if errors:
                return Answer.problem(400, "; ".join(errors))
        elif one["key"] == "lfsFile":
            if value["oid"] not in house.repositories.stored:
                return Answer.problem(400, f"The large file {value['oid']} was not uploaded")
            files[value["path"]] = File(house.repositories.stored[value["oid"]], True)
        elif one["key"] == "deletedFile":
            if value["path"] not in repository.head.files:
                return Answer.problem(400, f"{value['path']} does not exist")
            files[value["path"]] = None
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
    return large.send_bytes(file.content, known | {"ETag": f'"{file.oid}"'}, asked)


def _no_revision() -> Answer:
    return Answer.problem(404, "Invalid rev id", "RevisionNotFound")


# method, path, what answers, whether it changes the repository
_ROUTES: tuple[tuple[str, str, Route, bool], ...] = (
    ("POST", "/api/repos/create", _create, False),
    ("POST", "/api/validate-yaml", _validate, False),
    ("GET", f"/api/models/{NAME}/auth-check/write", _check, True),
    ("GET", f"/api/models/{NAME}/auth-check", _check, False),
    ("POST", f"/api/models/{NAME}/preupload/[^/]+", _preupload, True),
    ("POST", f"/{NAME}\\.git/info/lfs/objects/batch", large.batch, True),
    ("POST", f"/api/models/{NAME}/commit/main", _commit, True),
    ("POST", f"/api/models/{NAME}/tag/(?P<revision>[^/]+)", _tag, True),
    ("GET", f"/api/models/{NAME}/refs", _refs, False),
    ("GET", f"/api/models/{NAME}/tree/(?P<revision>[^/]+)(?P<path>/.*)?", _tree, False),
    ("GET", f"/api/models/{NAME}/revision/(?P<revision>[^/]+)", _info, False),
    ("GET", f"/api/models/{NAME}", _info, False),
    ("PUT", r"/lfs/(?P<oid>[0-9a-f]{64})", large.put, False),
    ("GET", r"/stored/(?P<oid>[0-9a-f]{64})", large.stored, False),
    ("GET", f"/{NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", _resolve, False),
)
