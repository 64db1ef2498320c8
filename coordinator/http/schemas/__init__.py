"""The JSON that the routes answer with."""
