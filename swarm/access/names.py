"""How names of people are written; apart from `passes`, which takes long to import."""

UNVERIFIED = "~"  # precedes a name that its owner chose and that is not verified
