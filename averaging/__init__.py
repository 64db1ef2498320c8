"""The log of a run: rounds, updates, snapshots, and the protocol by which peers agree on them.

`docs/design.md` follows a gradient through the files, from the model to the step.
"""
