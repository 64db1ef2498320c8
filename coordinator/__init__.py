"""The coordinator: first peer, usual convener, monitor, ledger and checkpoints."""
