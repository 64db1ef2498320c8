"""The log of a run: rounds, updates, snapshots, and the protocol by which peers agree on them."""
