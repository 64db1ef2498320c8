"""A volunteer's work: data, model, gradients (floor 2)."""
