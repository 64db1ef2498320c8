"""Releases of checkpoints to the Hugging Face Hub, each with its model card."""
