"""The encoders that a run can train, each a model of Transformers with a training forward pass of its own."""
