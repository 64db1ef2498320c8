"""The ledger's database: connections and a copy."""
