"""The weights with which a run begins. Only the coordinator makes them: they are the first snapshot of the log."""
