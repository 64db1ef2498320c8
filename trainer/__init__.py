"""A volunteer's work: text, samples, model, gradients."""
