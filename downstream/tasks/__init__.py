"""Tasks: named entities and classification."""
