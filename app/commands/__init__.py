"""Commands that have no folder of their own."""
