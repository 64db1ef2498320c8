"""Mirrors a run's figures to services that draw them: Weights & Biases and Trackio."""
