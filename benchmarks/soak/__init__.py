"""Minutes of kills and joins: `python -m benchmarks.soak`."""
