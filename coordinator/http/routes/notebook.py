"""The routes for joining from a notebook: the notebook itself, and the program that it installs."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from coordinator.context import RunContext
from coordinator.http.errors import NOT_FOUND, Problem, problem_response
from coordinator.http.response_cache import cache_headers
from coordinator.http.routes.public import link, link_cache_seconds
from coordinator.http.served_files import file_response
from coordinator.notebook.build import FILE_NAME, notebook_for
from coordinator.notebook.wheel import this_program


def notebook_routes(context: RunContext) -> APIRouter:
    """GET only; what is served does not change while the coordinator runs."""
    router = APIRouter(tags=["join"])
    ours = this_program()  # as it is now: its files may change while the coordinator runs

    @router.get(f"/{FILE_NAME}", response_class=Response)
    def notebook(request: Request) -> Response:
        """A notebook for Colab, Kaggle or Jupyter that joins this run."""
        content = notebook_for(link(context.run, str(request.base_url)) or "", ours, run=context.run.name)
        headers = cache_headers(link_cache_seconds(context.run)) | {
            "Content-Disposition": f'attachment; filename="{FILE_NAME}"'
        }
        return Response(content, headers=headers, media_type="application/x-ipynb+json")

    @router.get("/program/{name}", response_class=Response, responses=NOT_FOUND)
    def program(name: str, request: Request) -> Response:
        """The program of this coordinator, as a wheel for pip."""
        if name != ours.file_name:
            return problem_response(Problem.NOT_FOUND, f"the program of this run is {ours.file_name}")
        return file_response(ours.content, ours.sha256, "application/zip", request)

    return router
