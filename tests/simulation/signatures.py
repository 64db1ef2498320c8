"""Signatures in the simulation: what was signed is remembered, so nobody can forge it, and checking costs little."""

from msgspec.structs import replace

from averaging.protocol import credentials as signed
from averaging.protocol.messages import Contact

AUTHORITY = "the authority"
NONE = b""


def _by(who: str) -> bytes:
    return f"signed by {who}".encode()


class Signatures:
    """All of a run. A test that has them unchecked shows that a lie would be believed without them."""

    def __init__(self, are_checked: bool = True):
        self.are_checked = are_checked
        self.made: set[tuple[str, bytes]] = set()  # who has signed what
        self.passes: dict[str, tuple[str, bool]] = {}  # user of each session, and whether it is a coordinator

    def has(self, who: str, content: bytes, signature: bytes) -> bool:
        """Whether this was signed."""
        return not self.are_checked or (signature == _by(who) and (who, content) in self.made)

    def sign(self, who: str, content: bytes) -> bytes:
        """Sign it."""
        self.made.add((who, content))
        return _by(who)


class Credentials:
    """Of one session at a time. A real peer's key signs for all of its sessions."""

    def __init__(self, signatures: Signatures, contact: Contact):
        self._signatures = signatures
        self.begin(contact)

    def begin(self, contact: Contact) -> None:
        """Another session, which signs from now on."""
        self._contact = contact
        self._signatures.passes[contact.session] = contact.user, contact.is_coordinator

    def introduced(self, contact: Contact) -> Contact:
        """See `averaging.protocol.credentials`, as for the others."""
        return replace(contact, proof=self.sign(signed.contact(contact)))

    def sign(self, content: bytes) -> bytes:
        """See there."""
        return self._signatures.sign(self._contact.session, content)

    def verify(self, session: str, content: bytes, signature: bytes) -> bool:
        """See there."""
        return self._signatures.has(session, content, signature)

    def authorize(self, content: bytes) -> bytes:
        """See there."""
        return self._signatures.sign(AUTHORITY, content) if self._contact.is_coordinator else NONE

    def is_authorized(self, content: bytes, signature: bytes) -> bool:
        """See there."""
        return self._signatures.has(AUTHORITY, content, signature)

    def admits(self, contact: Contact) -> bool:
        """See there."""
        known = self._signatures.passes.get(contact.session)
        return not self._signatures.are_checked or (
            known == (contact.user, contact.is_coordinator)
            and self._signatures.has(contact.session, signed.contact(contact), contact.proof)
        )
