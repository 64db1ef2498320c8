"""The routes of whoever joins from a notebook: the notebook itself, and the program that it installs."""

from fastapi import APIRouter, Request
from fastapi.responses import Response

from coordinator.context import RunContext
from coordinator.http.errors import Problem, answer_problem
from coordinator.http.response_cache import KEPT_LONGER, NOT_FOUND, kept_headers
from coordinator.http.routes.public import link, link_kept_for
from coordinator.notebook.build import FILE_NAME, notebook_for
from coordinator.notebook.wheel import this_program


def notebook_routes(context: RunContext) -> APIRouter:
    """GET alone; what is served does not change while the coordinator runs."""
    router = APIRouter(tags=["join"])
    ours = this_program()  # as it is now: its files may change while the coordinator runs

    @router.get(f"/{FILE_NAME}", response_class=Response)
    def notebook(request: Request) -> Response:
        """A notebook for Colab, Kaggle or Jupyter that joins this run."""
        content = notebook_for(link(context.run, str(request.base_url)) or "", ours, run=context.run.name)
        headers = kept_headers(link_kept_for(context.run)) | {
            "Content-Disposition": f'attachment; filename="{FILE_NAME}"'
        }
        return Response(content, headers=headers, media_type="application/x-ipynb+json")

    @router.get("/program/{name}", response_class=Response, responses=NOT_FOUND)
    def program(name: str, request: Request) -> Response:
        """The program of this coordinator, as a wheel for pip."""
        if name != ours.file_name:
            message = f"the program of this run is {ours.file_name}"
            return answer_problem(Problem(error="not_found", message=message), 404)
        tag = f'"{ours.sha256}"'
        headers = kept_headers(KEPT_LONGER) | {"ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(ours.content, headers=headers, media_type="application/zip")

    return router
