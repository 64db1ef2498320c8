"""Peers that train, reduce or do both: `python -m benchmarks.roles`."""
