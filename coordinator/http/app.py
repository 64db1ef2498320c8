"""The HTTP service as one app: joining, public answers and the organizer's orders, behind request limits."""

import logging
import time

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from coordinator.access.hub_identity import Avatars, Hub, Remembered
from coordinator.access.revoked_keys import RevokedKeys
from coordinator.cached import Cached
from coordinator.http.key_holders import KeyHolders
from coordinator.http.metrics import Metrics
from coordinator.http.request_limits import RequestLimits
from coordinator.http.responses import CACHE_SECONDS, Problem, ProblemFound, problem_response
from coordinator.http.routes.admin import admin_routes
from coordinator.http.routes.downloads import describe_files, download_routes, tokenizer_files
from coordinator.http.routes.experts import expert_routes
from coordinator.http.routes.join import join_routes
from coordinator.http.routes.learning import learning_routes
from coordinator.http.routes.me import key_routes
from coordinator.http.routes.my_machines import my_machine_routes
from coordinator.http.routes.people import people_routes
from coordinator.http.routes.public import public_routes
from coordinator.http.routes.teams import team_refused, team_routes
from coordinator.ledger.storage.database import LedgerError
from coordinator.ledger.teams.membership import TeamRefused
from coordinator.run_context import ServiceContext
from swarm.access.join_messages import Refusal
from swarm.errors import SahajError, StorageError
from swarm.rate_limit import RateLimit
from swarm.version import program_version

logger = logging.getLogger(__name__)

MOST_USERS = 10_000  # whose avatars are remembered
MOST_NAMED = 3  # mistakes in a request that the response names


def make_app(context: ServiceContext) -> FastAPI:
    """The HTTP service of a coordinator.

    Raises:
        TokenizerError: there are no tokenizer files to serve.
        SwarmError: the orders to pause in the state folder, or the revoked keys, cannot be read.
    """
    app = FastAPI(
        title=f"Sahaj: {context.run.name}",
        description=context.run.description,
        version=program_version(),
        redoc_url=None,
    )
    files = tokenizer_files(context.tokenizer_folder)
    tokenizer = describe_files(files)
    avatars: Avatars = Remembered(MOST_USERS, time.monotonic)
    progress = Cached(context.ledger.progress, CACHE_SECONDS)
    totals = Cached(context.ledger.totals, CACHE_SECONDS)
    hub = Hub(context.limits.hub_timeout)
    metrics = Metrics(context, progress, totals)
    revoked = RevokedKeys(context.folder)
    holder = KeyHolders(context, revoked)
    app.include_router(join_routes(context, tokenizer, avatars, metrics.count_join, hub))
    app.include_router(key_routes(context, hub, holder, revoked))
    app.include_router(my_machine_routes(context, holder))
    app.include_router(public_routes(context, tokenizer, progress, totals, metrics.text))
    app.include_router(download_routes(context, files))
    app.include_router(learning_routes(context))
    app.include_router(people_routes(context, avatars))
    app.include_router(team_routes(context, avatars, holder))
    app.include_router(expert_routes(context))
    app.include_router(admin_routes(context, avatars))
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ProblemFound, _problem_found)
    app.add_exception_handler(TeamRefused, team_refused)
    app.add_exception_handler(SahajError, _known_error)
    attempts = RateLimit(context.limits.per_address, context.limits.window)
    app.add_middleware(RequestLimits, attempts=attempts, count=metrics.count_join)
    return app


async def _malformed(request: Request, error: Exception) -> Response:
    """Name the fields, never their content: a token may be in the wrong one."""
    assert isinstance(error, RequestValidationError)
    places = [
        f"{'.'.join(str(part) for part in one['loc'][1:])[:60] or 'the body'}: {one['msg'][:100]}"
        for one in error.errors()[:MOST_NAMED]
    ]
    named = "".join(letter if letter.isprintable() else "?" for letter in "; ".join(places))
    return problem_response(Refusal.MALFORMED, f"the request is malformed ({named}); see /docs")


async def _http_error(request: Request, error: Exception) -> Response:
    """What Starlette and FastAPI find themselves."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return problem_response(Problem.NOT_FOUND, "there is nothing here; see /docs")
    if error.status_code == 400:
        return problem_response(Refusal.MALFORMED, "the request is malformed; see /docs")
    return problem_response(Problem.NOT_POSSIBLE, str(error.detail), status=error.status_code)


async def _problem_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemFound)
    return error.response


async def _known_error(request: Request, error: Exception) -> Response:
    """Our own errors name paths of this machine, which are for its log only."""
    logger.warning("%s %s: %s", request.method, request.url.path, error)
    if isinstance(error, LedgerError):
        message = "the ledger cannot be read now; try again later"
    elif isinstance(error, StorageError):
        message = "the coordinator cannot write to its disk; nothing was changed"
    else:
        message = "that is not possible now; see what the coordinator printed"
    return problem_response(Problem.UNAVAILABLE, message)
