"""What the lines of peers carry: measured, told, capped."""
