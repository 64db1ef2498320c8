"""A trainer as a service of the user: systemd or launchd starts it with the login, and again after a crash."""
