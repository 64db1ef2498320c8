"""Large files at the Hub's stand-in, by the LFS protocol: announced, sent in one PUT, and fetched."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from tests.support.hub.requests import Answer, Asked, House


def batch(house: House, found: re.Match[str], asked: Asked) -> Answer:
    """Which large files are wanted, and where to."""
    objects = []
    wanted = asked.content()
    for one in wanted["objects"]:
        oid, size, known = one["oid"], one["size"], house.repositories.stored
        told: dict[str, Any] = {"oid": oid, "size": size, "authenticated": True}
        if oid not in known:
            told["actions"] = {"upload": {"href": f"{house.url}/lfs/{oid}"}}
        objects.append(told)
    return Answer.json({"transfer": "basic", "objects": objects})


def put(house: House, found: re.Match[str], asked: Asked) -> Answer:
    """A large file as a whole."""
    if hashlib.sha256(asked.body).hexdigest() != found["oid"]:
        return Answer.problem(400, "The content is not what was announced")
    house.repositories.stored[found["oid"]] = asked.body
    house.repositories.received.append(found["oid"])
    return Answer(200)


def stored(house: House, found: re.Match[str], asked: Asked) -> Answer:
    """The host that large files are fetched from."""
    content = house.repositories.stored.get(found["oid"])
    return (
        Answer.problem(404, "not found")
        if content is None
        else send_bytes(content, {"ETag": f'"{found["oid"]}"'}, asked)
    )


def send_bytes(content: bytes, headers: Mapping[str, str], asked: Asked) -> Answer:
    """All of it, or the range that is asked for, as of a download that goes on."""
    named = {name.lower(): value for name, value in asked.headers.items()}
    kind = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes"}
    wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", named.get("range", ""))
    if wanted is None or int(wanted[1]) >= len(content):
        return Answer(200, content, {**kind, **headers})
    part = content[int(wanted[1]) : int(wanted[2]) + 1 if wanted[2] else None]
    span = f"bytes {wanted[1]}-{int(wanted[1]) + len(part) - 1}/{len(content)}"
    return Answer(206, part, {**kind, **headers, "Content-Range": span})
