"""Calls of experts over libp2p: what is sent, the service of a host, and the caller that a trainer has."""
