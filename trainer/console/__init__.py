"""What a volunteer sees: a live view in a terminal, plain lines, or pages in a notebook."""
