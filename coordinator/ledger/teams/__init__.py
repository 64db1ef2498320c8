"""Teams: their names, who is in them, and what they have given."""
