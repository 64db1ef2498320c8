"""What a run writes down: headers, the chain that they form, and the credit that follows from them."""
