"""Who takes part in a run: passes, the check of them, renewal, and what the organizer announces."""
