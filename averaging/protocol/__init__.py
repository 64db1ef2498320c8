"""How peers agree on the next header of the log: pure state machines.

They are given events and the time, and return actions. Nothing here opens a socket, reads a clock or knows torch.
`peer.py` is the whole machine and takes the events; `peer_components.py` makes its parts, which are the other files.
"""
