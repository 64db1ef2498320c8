"""The learning rate by global step, as sahajBERT had it: linear warm-up, then linear decay to zero."""

from swarm.run_file import OptimizerSection


def learning_rate_at(settings: OptimizerSection, step: int) -> float:
    """The learning rate of global step `step`, counted from 0."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    left = (settings.total_steps - step) / (settings.total_steps - settings.warmup_steps)
    return settings.learning_rate * max(0.0, left)
