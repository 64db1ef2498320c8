"""The ledger's database: connections, upgrades and a copy."""
