"""The command lines of commands that have a file each."""
