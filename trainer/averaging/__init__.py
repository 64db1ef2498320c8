"""The DeDLOC part: one optimizer step of the whole swarm, built on hivemind.

Everything that overrides hivemind lives in this folder, and each file says what it changes and why.
"""

from trainer.averaging.optimizer import SwarmOptimizer, make_optimizer
from trainer.averaging.rounds import RoundFailed, RoundReport

__all__ = ["RoundFailed", "RoundReport", "SwarmOptimizer", "make_optimizer"]
