"""Labelled data: files and datasets of the Hub, as examples of a task."""
