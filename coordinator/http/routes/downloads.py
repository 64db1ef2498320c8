"""The routes for what volunteers download: script and notebook, the program that they install, the tokenizer's files.

They are held in memory: their digests stay true, and no request reads a path.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from coordinator.http.responses import LONG_CACHE_SECONDS, NOT_FOUND, Problem, cache_headers, problem_response
from coordinator.http.routes.public import link, link_cache_seconds
from coordinator.join_script import script
from coordinator.notebook.build import FILE_NAME, notebook_for
from coordinator.notebook.wheel import this_program
from coordinator.run_context import RunContext
from swarm.access.join_messages import TOKENIZER_SUFFIXES, TokenizerFile
from swarm.errors import TokenizerError


def tokenizer_files(folder: Path) -> dict[str, bytes]:
    """The files in a tokenizer's folder, by name.

    Raises:
        TokenizerError: there are none, or they cannot be read.
    """
    try:
        paths = [path for path in sorted(folder.iterdir()) if path.suffix in TOKENIZER_SUFFIXES and path.is_file()]
        contents = {path.name: path.read_bytes() for path in paths if not path.name.startswith(".")}
    except OSError as error:
        raise TokenizerError(f"{folder}: the tokenizer cannot be read ({error.strerror})") from None
    if not contents:
        raise TokenizerError(f"{folder}: no tokenizer files; make them with `sahaj tokenizer train`")
    return contents


def describe_files(files: Mapping[str, bytes]) -> list[TokenizerFile]:
    """What a trainer checks them by."""
    return [
        TokenizerFile(name=name, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        for name, content in files.items()
    ]


def download_routes(context: RunContext, tokenizer: Mapping[str, bytes]) -> APIRouter:
    """GET only; what is served does not change while the coordinator runs."""
    router = APIRouter(tags=["join"])
    ours = this_program()  # as it is now: its files may change while the coordinator runs
    pins = script.CONSTRAINTS.read_bytes()

    @router.get(f"/{script.FILE_NAME}", response_class=Response, responses=NOT_FOUND)
    def join_script(request: Request) -> Response:
        """A script for a shell that installs this coordinator's program and joins this run."""
        url = link(context.run, str(request.base_url))
        if url is None:
            return problem_response(Problem.NOT_FOUND, "you cannot join through this address; use the organizer's")
        headers = cache_headers(link_cache_seconds(context.run))
        content = script.script_for(url, ours, run=context.run.name, language=context.run.language)
        return Response(content, headers=headers, media_type="text/x-shellscript; charset=utf-8")

    @router.get(f"/{FILE_NAME}", response_class=Response)
    def notebook(request: Request) -> Response:
        """A notebook for Colab, Kaggle or Jupyter that joins this run."""
        url, run = link(context.run, str(request.base_url)) or "", context.run
        content = notebook_for(url, ours, run=run.name, language=run.language)
        headers = cache_headers(link_cache_seconds(context.run)) | {
            "Content-Disposition": f'attachment; filename="{FILE_NAME}"'
        }
        return Response(content, headers=headers, media_type="application/x-ipynb+json")

    @router.get("/program/{name}", response_class=Response, responses=NOT_FOUND)
    def program(name: str, request: Request) -> Response:
        """The program of this coordinator, as a wheel for pip, and `constraints.txt`: versions that were tested."""
        if name == script.CONSTRAINTS.name:
            return _file_response(pins, "text/plain; charset=utf-8", request)
        if name != ours.file_name:
            return problem_response(Problem.NOT_FOUND, f"the program of this run is {ours.file_name}")
        return _file_response(ours.content, "application/zip", request)

    @router.get("/api/tokenizer/{name}", response_class=Response, responses=NOT_FOUND)
    def tokenizer_file(name: str, request: Request) -> Response:
        """One file of the run's tokenizer."""
        if name not in tokenizer:
            return problem_response(Problem.NOT_FOUND, "the run's tokenizer has no such file")
        return _file_response(tokenizer[name], "application/octet-stream", request)

    return router


def _file_response(content: bytes, media_type: str, request: Request) -> Response:
    """The file, or status 304 if the client has it."""
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    headers = cache_headers(LONG_CACHE_SECONDS) | {"ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)
