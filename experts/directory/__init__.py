"""Which host has which experts: a signed record of each host in the DHT, and the rules that follow from all of them."""
