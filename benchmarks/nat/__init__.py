"""A round of averaging on lines of several speeds: `python -m benchmarks.averaging`."""
