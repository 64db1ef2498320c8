"""What a process logs: to the console, to a file, and what is left out."""
