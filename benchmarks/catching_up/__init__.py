"""Joining a run behind a thin line: `python -m benchmarks.catching_up`."""
