"""Moving to `averaging/`."""
