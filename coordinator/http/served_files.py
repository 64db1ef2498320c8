"""Files that volunteers download, held in memory: their digests stay true, and no request reads a path."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import Request
from fastapi.responses import Response

from coordinator.http.response_cache import LONG_CACHE_SECONDS, cache_headers
from swarm.access.join_messages import TokenizerFile
from swarm.errors import TokenizerError


@dataclass(frozen=True)
class ServedFile:
    """A file of the run's tokenizer."""

    about: TokenizerFile
    content: bytes


def tokenizer_files(folder: Path) -> dict[str, ServedFile]:
    """The files in a tokenizer's folder, by name.

    Raises:
        TokenizerError: there are none, or they cannot be read.
    """
    try:
        paths = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
        contents = {path.name: path.read_bytes() for path in paths}
    except OSError as error:
        raise TokenizerError(f"{folder}: the tokenizer cannot be read ({error.strerror})") from None
    if not contents:
        raise TokenizerError(f"{folder}: no tokenizer files; make them with `sahaj tokenizer train`")
    return {
        name: ServedFile(
            TokenizerFile(name=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content)), content
        )
        for name, content in contents.items()
    }


def file_response(content: bytes, sha256: str, media_type: str, request: Request) -> Response:
    """The file, or status 304 if the client has it."""
    tag = f'"{sha256}"'
    headers = cache_headers(LONG_CACHE_SECONDS) | {"ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)
