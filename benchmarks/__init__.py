"""What the program costs beside the stock recipe, measured on this machine."""
