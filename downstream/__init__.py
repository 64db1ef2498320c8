"""After pretraining: fine-tuning checkpoints on a task, and comparing them by it."""
