"""One global step: the batch, the meeting, reducing, and the header that comes of it."""
