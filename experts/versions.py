"""The version of an expert's state: how often the run was rolled back, and the steps that the expert has taken.

A version with more rollbacks is newer, whatever its steps, so "most steps" and "newest" are the same comparison
everywhere else.
"""

STEPS = 2**32  # more than an expert takes


def steps_taken(version: int) -> int:
    """Steps of the expert that led to its state."""
    return version % STEPS


def rollbacks(version: int) -> int:
    """Rollbacks of the run before the state began."""
    return version // STEPS


def rolled_back(version: int, newest: int) -> int:
    """The version of an older state that is to replace all up to the newest one."""
    return (rollbacks(newest) + 1) * STEPS + steps_taken(version)
