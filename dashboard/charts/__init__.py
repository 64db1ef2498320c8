"""Charts: their specifications, and the tables that they draw."""
