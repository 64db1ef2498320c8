"""Joining a run with one link: from a URL and a Hugging Face token to a training peer."""
