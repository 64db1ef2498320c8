"""How well the model does: held-out loss, the unigram baseline, and masks that it fills."""
