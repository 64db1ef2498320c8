"""Whose request it is, by the personal key that it shows."""

from fastapi import Request, Security
from fastapi.security import HTTPBearer

from coordinator.access.person_key import KeyRefused, PersonalKey, read_key
from coordinator.access.policy import refuse_if_banned
from coordinator.access.revoked_keys import RevokedKeys
from coordinator.http.request_limits import check_limit
from coordinator.http.responses import ProblemFound, accepted, bearer
from coordinator.run_context import ServiceContext
from swarm.access.join_messages import Refusal
from swarm.rate_limit import RateLimit

KEY_SHOWN = Security(HTTPBearer(auto_error=False, scheme_name="personal key"))  # for /docs; `KeyHolders` reads it
REQUESTS, WINDOW = 240, 60.0  # of a holder, in so many seconds: some open pages ask every five


class KeyHolders:
    """Reads the personal keys of requests. Threads may share it."""

    def __init__(self, context: ServiceContext, revoked: RevokedKeys):
        self._context, self._revoked = context, revoked
        self._requests = RateLimit(REQUESTS, WINDOW)

    def __call__(self, request: Request, *, is_limited: bool = True) -> PersonalKey:
        """The key that a request shows.

        Args:
            is_limited: it counts as one of the holder's requests, of whom a thief of the key may make many.

        Raises:
            ProblemFound: it shows no key that is good, the holder is banned, or there were too many requests.
        """
        shown = bearer(request.headers)
        if shown is None:
            raise ProblemFound(Refusal.TOKEN_MISSING, "a personal key is required; get one with `sahaj me LINK`")
        try:
            key = read_key(shown, self._context.authority.public_key, self._context.run.name)
        except KeyRefused as error:
            raise ProblemFound(Refusal.TOKEN_REJECTED, str(error)) from None
        if self._revoked.includes(key):
            revoked = "this personal key has been revoked; get a new one with `sahaj me LINK`"
            raise ProblemFound(Refusal.TOKEN_REJECTED, revoked)
        accepted(refuse_if_banned(key.user, key.peer_id, self._context.notices.decisions))
        if is_limited:
            check_limit(self._requests, key.holder, "requests with this key")
        return key
