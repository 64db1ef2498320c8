"""`sahaj release`: a checkpoint goes to the Hub by hand."""
