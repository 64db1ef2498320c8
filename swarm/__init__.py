"""What every peer of a run shares: the run file, identity, access, the DHT and signed records, logging."""
