"""The DeDLOC part: one optimizer step of the whole swarm, built on hivemind.

Everything that overrides hivemind lives in this folder, and each file says what it changes and why. `planning/` says
who averages what, `lines/` what lines carry, `moshpit/` who is in which small group.

The plans need neither hivemind nor torch; so these are imported when somebody asks for the optimizer, not before.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.averaging.optimizer import SwarmOptimizer, make_optimizer
    from trainer.averaging.rounds import RoundFailed, RoundReport

__all__ = ["RoundFailed", "RoundReport", "SwarmOptimizer", "make_optimizer"]


def __getattr__(name: str) -> Any:
    """The optimizer and its reports, at the first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    file = "rounds" if name.startswith("Round") else "optimizer"
    return getattr(import_module(f"{__name__}.{file}"), name)
