"""Mirrors a run's figures to Weights & Biases."""
