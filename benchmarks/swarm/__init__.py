"""A small swarm beside as many trainers that do not communicate: `python -m benchmarks.swarm`."""
