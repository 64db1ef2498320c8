"""Joining from a notebook: what its one cell calls, and the file itself."""
