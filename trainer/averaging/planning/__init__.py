"""Who averages which part, and who computes gradients: pure functions without hivemind and torch."""
