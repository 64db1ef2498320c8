"""What every peer of a run shares: the run file, identity, the DHT, and the records peers sign (floor 0)."""
