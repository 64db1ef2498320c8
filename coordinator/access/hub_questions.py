"""Asks the Hub who shows a token, in threads: a slow Hub delays the users who need it, and no other route."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from coordinator.access.hub_identity import Hub, HubAway, HubUser, TokenRejected
from swarm.access.join_messages import Refusal, Refused
from swarm.tasks import within

THREADS = 8  # questions at the same time


class HubQuestions:
    """Questions to one Hub, each answered or refused within `timeout` seconds."""

    def __init__(self, hub: Hub, timeout: float):
        self._hub, self._timeout = hub, timeout
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="hub")

    async def who_is(self, token: str) -> HubUser | Refused:
        """Whose token it is. Never raises: an error could carry the token into a log."""
        asked = asyncio.get_running_loop().run_in_executor(self._threads, self._hub.ask, token)
        try:
            async with within(self._timeout):
                return await asked
        except TokenRejected as error:
            return Refused(error=Refusal.TOKEN_REJECTED, message=str(error))
        except HubAway as error:
            return Refused(error=Refusal.HUB_AWAY, message=str(error))
        except asyncio.TimeoutError:
            message = "the Hugging Face Hub takes too long to say who you are; try again in a minute"
            return Refused(error=Refusal.HUB_AWAY, message=message)
