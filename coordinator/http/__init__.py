"""The coordinator's HTTP service: the door of a run, its public figures, and the organizer's orders."""
