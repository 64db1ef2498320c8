"""Rounds with most peers behind routers: `python -m benchmarks.nat`."""
