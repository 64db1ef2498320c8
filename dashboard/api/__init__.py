"""The coordinator's HTTP API: its answers, the shared client, and the organizer's requests."""
