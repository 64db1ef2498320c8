"""Changes to hivemind 1.1.12: each module is one, and says what upstream does and why it is changed."""
