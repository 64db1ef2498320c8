"""The steps, each a file with `revision`, `down_revision` and `upgrade`."""
