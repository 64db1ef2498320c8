"""The coordinator's HTTP service: joining, public answers about the run, and the organizer's orders."""
