"""Names of people, where the rest of a pass is not needed."""

UNVERIFIED = "~"  # before a name that its owner chose, and nobody checked
