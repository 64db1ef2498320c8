"""The DeDLOC part: one optimizer step of the whole swarm, built on hivemind.

Everything that overrides hivemind lives in this folder, and each file says what it changes and why. `optimizer.py` is
the way in. The plans (`plan.py`) and `moshpit.py` need neither hivemind nor torch, and importing this package imports
neither.
"""
