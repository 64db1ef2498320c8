"""Who reduces which part, and who computes gradients (DeDLOC): pure functions without hivemind and torch."""
