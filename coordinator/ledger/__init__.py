"""The ledger in SQLite or PostgreSQL: global steps, sessions, people, and who contributed what."""
