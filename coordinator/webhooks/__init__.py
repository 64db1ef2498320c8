"""News of a run for the chat rooms of a community: what is told, and the webhooks that take it."""
