"""`sahaj new`: a run file that fits a text, the volunteers who will come, and the days that they have."""
