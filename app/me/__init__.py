"""A person's own things in a run: figures, team, and the key that opens their page."""
