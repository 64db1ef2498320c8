"""Checkpoints on disk: saving, checking and loading them, and going back to an older one."""
