"""Changes to hivemind itself, one a module; each says what upstream does and why it is changed."""
