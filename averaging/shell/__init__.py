"""Around the machine: hands it what happens, and carries out what it asks for. `transport` only moves messages."""
