"""Each call between DHT nodes, and each answer, carries the pass of its sender."""

from hivemind.p2p import PeerID
from hivemind.utils import get_logger
from hivemind.utils.auth import AuthorizedRequestBase, AuthorizedResponseBase, AuthorizerBase
from hivemind.utils.crypto import RSAPublicKey

from swarm.access.gate import Gate
from swarm.access.passes import PassRefused
from swarm.access.refusals import caller, count_refusal

logger = get_logger(__name__)


class PassAuthorizer(AuthorizerBase):
    """Shows our pass with each call and each answer, and checks the pass of the other peer.

    hivemind's own authorizers (its issue 253) sign each message with RSA as well, which takes a trainer more than one
    percent of a core. libp2p has already authenticated the other peer and encrypts what is sent: what is left to check
    is whether the pass was given to that very peer. Streams of the log check the same.
    """

    def __init__(self, gate: Gate, called: PeerID | None = None):
        self._gate, self._called = gate, called

    def toward(self, peer: PeerID) -> "PassAuthorizer":
        """For calls of this peer."""
        return PassAuthorizer(self._gate, peer)

    async def sign_request(self, request: AuthorizedRequestBase, service_public_key: RSAPublicKey | None) -> None:
        """See upstream."""
        request.auth.client_access_token.signature = self._gate.own.to_bytes()

    async def validate_request(self, request: AuthorizedRequestBase) -> bool:
        """See upstream."""
        admitted = self._admits(caller(), request.auth.client_access_token.signature)
        if not admitted:
            count_refusal()
        return admitted

    async def sign_response(self, response: AuthorizedResponseBase, request: AuthorizedRequestBase) -> None:
        """See upstream."""
        response.auth.service_access_token.signature = self._gate.own.to_bytes()

    async def validate_response(self, response: AuthorizedResponseBase, request: AuthorizedRequestBase) -> bool:
        """See upstream."""
        return self._admits(self._called, response.auth.service_access_token.signature)

    def _admits(self, peer_id: PeerID | None, shown: bytes) -> bool:
        if peer_id is None:
            return False
        try:
            self._gate.admit(peer_id, shown)
        except PassRefused as error:
            logger.debug(f"{peer_id} was refused: {error}")
            return False
        return True
