"""What commands of organizers do."""
