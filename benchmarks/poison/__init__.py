"""What one liar with a pass does to a run."""
