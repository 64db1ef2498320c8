"""What audits say of users: flags for the organizer, and who is on probation."""
