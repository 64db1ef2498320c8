"""The log of a run: rounds, updates, snapshots, and the protocol by which peers agree on them.

The way of a gradient to the step:

    optimizer.py                   end_batch: the gradients of the model as one vector
    shell/shell.py                 contribute: it counts, if it is fresh
    reduce/gradient_buffers.py     add; in a round, piece
    protocol/rounds/reducing.py    which pieces go to which reducer
    shell/exchange.py              average: the pieces that have come
    reduce/reducer.py              average: their mean, encoded once
    protocol/rounds/round.py       the header that names the means, and its votes
    protocol/components.py         apply: the header is committed
    shell/stepping.py              the same aside, and on the disk
    shell/replay.py                apply: the mean is decoded
    optimizers/state_step.py       step: the next state
"""
