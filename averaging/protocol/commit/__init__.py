"""When a header is committed: voters, their quorum, and what they object to."""
