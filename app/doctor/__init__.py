"""What is wrong with this machine, or on the way from it into a run, and what to do: `sahaj doctor`."""
