"""What a peer's line carries, and what its volunteer lets the run take of it."""
