"""What a peer lacks of the log, whom it believes, and what it holds for others."""
