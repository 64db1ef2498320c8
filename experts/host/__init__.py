"""A host's work: the queue of calls, the experts with their optimizers, and their states as files."""
