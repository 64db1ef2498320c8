"""What a run writes down: headers and their chain, states and snapshots, and where a peer keeps them."""
