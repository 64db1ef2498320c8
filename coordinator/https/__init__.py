"""HTTPS of the coordinator's own: certificates, where they come from, and the two ports."""
