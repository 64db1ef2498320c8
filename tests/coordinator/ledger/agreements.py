"""What an audit says of senders, for tests of what follows from it."""

from collections.abc import Mapping

from averaging.reduce.agreement import Agreement


def agreement(cosines: Mapping[str, float], loudness: Mapping[str, float] | None = None) -> tuple[Agreement, ...]:
    """Of sessions; each is as loud as usual if nothing else is said."""
    return tuple(Agreement(session, cosine, (loudness or {}).get(session, 1.0)) for session, cosine in cosines.items())
