"""Moves the messages of the protocol over libp2p: streams, their limits and speed, and the list of peers in the DHT."""
