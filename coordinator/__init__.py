"""The coordinator: first peer, auxiliary averager, monitor, ledger and checkpoints (floor 3)."""
