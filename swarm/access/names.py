"""How names of people are written; apart from `passes`, which takes long to import."""

UNVERIFIED = "~"  # precedes a name that its owner chose and that is not verified


def is_verified(user: str) -> bool:
    """Whether the Hub says that this is the person."""
    return not user.startswith(UNVERIFIED)
