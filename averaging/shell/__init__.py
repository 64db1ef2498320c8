"""Around the machine: what happens is handed to it, and what it asks for is carried out."""
