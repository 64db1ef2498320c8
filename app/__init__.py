"""The command line: joining, training, the demo, plans, and all other commands."""
