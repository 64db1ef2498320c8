"""What a peer lacks of the log, which peers it believes, and what it holds for others."""
