"""Commands that need no room of their own: train, finetune, evaluate, admin, dashboard, info."""
