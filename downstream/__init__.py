"""What comes after pretraining: fine-tuning a checkpoint on a task, and comparing checkpoints by it (floor 2)."""
