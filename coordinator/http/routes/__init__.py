"""The routes of the HTTP service, by subject."""
