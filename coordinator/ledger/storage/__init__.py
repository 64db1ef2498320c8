"""The ledger's database: connections, locks, upgrades and a copy."""
