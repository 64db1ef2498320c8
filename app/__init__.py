"""What a person starts: the command line, the demo, and a look at a checkpoint (floor 5)."""
