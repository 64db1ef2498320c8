"""The log of a run: rounds, updates, snapshots, and the protocol by which peers agree on them.

The way of a gradient to the step: `optimizer.py` (end_batch), `shell/shell.py` (contribute), `reduce/gradient_buffers.py`
(add, piece), `protocol/rounds/reducing.py` (which pieces go where), `shell/exchange.py` and `reduce/reducer.py` (average),
`protocol/rounds/round.py` (the header, its votes), `protocol/components.py` (apply), `shell/stepping.py` (the same, aside),
`shell/replay.py` (decode), `optimizers/state_step.py`.
"""
