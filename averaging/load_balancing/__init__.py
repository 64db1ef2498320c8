"""Which peer reduces which part, and which compute gradients (DeDLOC): pure functions without hivemind and torch."""
