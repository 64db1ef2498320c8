"""How gradients become one update: pieces of senders, the mean of a reducer, the bytes that all peers apply."""
