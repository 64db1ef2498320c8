"""What a volunteer looks at: a terminal, plain lines, or a notebook."""
