"""Evaluation of the model: held-out losses, the unigram baseline, and probes whose masks it fills."""
