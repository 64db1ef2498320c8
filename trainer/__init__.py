"""A volunteer's work: data, model, gradients, averaging (floor 2)."""
