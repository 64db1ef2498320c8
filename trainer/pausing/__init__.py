"""When a trainer pauses, as its volunteer wishes: pure decisions, and thin readers of what this machine is doing."""
