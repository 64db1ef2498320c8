"""Checkpoints on disk: saving, checking and loading them, and rolling the run back to one."""
