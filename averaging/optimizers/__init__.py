"""How a step is taken from the mean gradient of a swarm."""
