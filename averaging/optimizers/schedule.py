"""The learning rate of each global step."""

from swarm.run_file import OptimizerSection


def learning_rate_at(settings: OptimizerSection, step: int) -> float:
    """The learning rate of a global step; steps are counted from 0."""
    return _scheduled(settings.learning_rate, settings, step)


def schedule_factor(settings: OptimizerSection, step: int) -> float:
    """The share of the highest learning rate at a step; 0 for a step below 0, at which there is no state yet."""
    return _scheduled(1.0, settings, step) if step >= 0 else 0.0


def _scheduled(highest: float, settings: OptimizerSection, step: int) -> float:
    """Linear warm-up, then linear decay to zero, as sahajBERT had it."""
    if step < settings.warmup_steps:
        return highest * (step + 1) / settings.warmup_steps
    left = (settings.total_steps - step) / (settings.total_steps - settings.warmup_steps)
    return highest * max(0.0, left)
