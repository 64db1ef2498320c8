"""The learning rate of each global step."""

from swarm.run_file import OptimizerSection


def learning_rate_at(settings: OptimizerSection, step: int) -> float:
    """Of a global step, counted from 0."""
    return settings.learning_rate * schedule_factor(settings, step)


def schedule_factor(settings: OptimizerSection, step: int) -> float:
    """Of the highest learning rate: linear warm-up to 1, then linear decay to zero, as sahajBERT had it."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    return max(0.0, (settings.total_steps - step) / (settings.total_steps - settings.warmup_steps))
