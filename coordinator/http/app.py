"""The service as one app: the door, the public figures and the organizer's orders behind a first look."""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from coordinator.access.hub_identity import Hub
from coordinator.context import ServiceContext
from coordinator.http.desk import People, Remembered, tokenizer_files
from coordinator.http.errors import Problem, answer_problem, refuse
from coordinator.http.metrics import Figures
from coordinator.http.request_limits import FirstLook
from coordinator.http.response_cache import KEPT
from coordinator.http.routes.admin import admin_routes
from coordinator.http.routes.join import join_routes
from coordinator.http.routes.learning import learning_routes
from coordinator.http.routes.machines import machine_routes
from coordinator.http.routes.notebook import notebook_routes
from coordinator.http.routes.people import people_routes
from coordinator.http.routes.public import public_routes
from coordinator.ledger.ledger import LedgerError
from swarm.access.join_messages import Refusal, Refused
from swarm.errors import SahajError, StorageError
from swarm.program import program_version
from swarm.rate_limit import RateLimit

logger = logging.getLogger(__name__)

MOST_NAMED = 3  # mistakes of a request that its answer names


def make_app(context: ServiceContext) -> FastAPI:
    """The HTTP service of a coordinator.

    Raises:
        TokenizerError: there are no tokenizer files to serve.
    """
    app = FastAPI(
        title=f"Sahaj: {context.run.name}",
        description=context.run.description,
        version=program_version(),
        redoc_url=None,
    )
    files = tokenizer_files(context.tokenizer_folder)
    people = People()
    progress = Remembered(context.ledger.progress, KEPT)
    totals = Remembered(context.ledger.totals, KEPT)
    figures = Figures(context, progress, totals)
    app.include_router(join_routes(context, files, people, figures.joins, Hub()))
    app.include_router(public_routes(context, files, progress, totals, figures.text))
    app.include_router(notebook_routes(context))
    app.include_router(learning_routes(context))
    app.include_router(people_routes(context, people))
    app.include_router(machine_routes(context))
    app.include_router(admin_routes(context, people))
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _other_status)
    app.add_exception_handler(SahajError, _foreseen)
    attempts = RateLimit(context.limits.per_address, context.limits.window)
    app.add_middleware(FirstLook, attempts=attempts, count=figures.joins.count)
    return app


async def _malformed(request: Request, error: Exception) -> Response:
    """Names the places, never the content: a token may have been put in the wrong one."""
    assert isinstance(error, RequestValidationError)
    places = [
        f"{'.'.join(str(part) for part in one['loc'][1:])[:60] or 'the body'}: {one['msg'][:100]}"
        for one in error.errors()[:MOST_NAMED]
    ]
    named = "".join(letter if letter.isprintable() else "?" for letter in "; ".join(places))
    return refuse(Refused(error=Refusal.MALFORMED, message=f"the request is malformed ({named}); see /docs"))


async def _other_status(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = str(error.detail)
    if error.status_code == 404:
        return answer_problem(Problem(error="not_found", message="there is nothing here; see /docs"), 404)
    if error.status_code == 401:
        shown = "authorization" in request.headers
        refusal = Refusal.TOKEN_REJECTED if shown else Refusal.TOKEN_MISSING
        return refuse(Refused(error=refusal, message=detail))
    if error.status_code == 400:
        return refuse(Refused(error=Refusal.MALFORMED, message="the request is malformed; see /docs"))
    return answer_problem(Problem(error="not_possible", message=detail), error.status_code)


async def _foreseen(request: Request, error: Exception) -> Response:
    """Our own errors name paths of this machine: those are for its log."""
    logger.warning("%s %s: %s", request.method, request.url.path, error)
    if isinstance(error, LedgerError):
        message = "the ledger cannot be read now; try again later"
    elif isinstance(error, StorageError):
        message = "the coordinator cannot write to its disk; nothing was changed"
    else:
        message = "that is not possible now; see what the coordinator printed"
    return answer_problem(Problem(error="unavailable", message=message), 503)
