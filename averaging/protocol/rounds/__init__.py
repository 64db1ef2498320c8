"""One global step: gathering, meeting, reducing, and the header that comes of it."""
