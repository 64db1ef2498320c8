"""Threads beside the work of a peer, which renew its pass, ask for orders of its page, and watch for a spot notice."""
