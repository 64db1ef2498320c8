"""The learning rate of each global step."""

from swarm.run_file import OptimizerSection


def learning_rate_at(settings: OptimizerSection, step: int) -> float:
    """Of a global step, counted from 0: linear warm-up, then linear decay to zero, as sahajBERT had it."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    left = (settings.total_steps - step) / (settings.total_steps - settings.warmup_steps)
    return settings.learning_rate * max(0.0, left)
