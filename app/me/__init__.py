"""A person's own things in a run: figures, machines, and the key that opens their pages."""
