"""Carries the messages of the protocol over libp2p: everything that awaits, in one event loop of one thread."""
