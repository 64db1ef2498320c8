"""Access to a run: passes and their check, renewal, the organizer's notices, and peers that are refused."""
