"""Estimates the arithmetic, electricity and carbon of a run; the model card states the assumptions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from swarm.run_file import RunFile

OTHER_GPU_WATTS = 220.0  # of a GPU that is not in the list
# watts of a device at work, by a pattern in its name: the makers' figures for a board; the first match counts
WATTS: tuple[tuple[str, float], ...] = (
    (r"\bH100 PCIe\b", 350.0),
    (r"\bH[128]00\b", 700.0),
    (r"\bB200\b", 1000.0),
    (r"\bA100\b", 400.0),
    (r"\bV100\b", 300.0),
    (r"\bP100\b", 250.0),
    (r"\bT4\b", 70.0),
    (r"\bL4\b", 72.0),
    (r"\bL40\b", 300.0),
    (r"\bL40S\b", 350.0),
    (r"\bA10\b", 150.0),
    (r"\bA10G\b", 300.0),
    (r"\bK80\b", 300.0),
    (r"RTX (?:A6000|6000)\b", 300.0),
    (r"\b5090\b", 575.0),
    (r"\b4090\b", 450.0),
    (r"\b3090\b", 350.0),
    (r"GeForce|RTX|GTX|Quadro|Tesla|Radeon|NVIDIA", OTHER_GPU_WATTS),
    (r"MPS|Apple", 40.0),
)
PROCESSOR_WATTS = 65.0  # of anything else: the rated power of a usual desktop processor
REST_WATTS = 30.0  # of the computer around it
CARBON = 0.48  # kg of CO2 equivalents for a kilowatt-hour: the world's electricity in 2023 (Ember, 2024)


@dataclass(frozen=True)
class Cost:
    """Floating-point operations of training, hours of devices, kilowatt-hours, and kg of CO2 equivalents."""

    operations: float
    hours: float
    energy: float
    carbon: float


def cost_of(run: RunFile, vocabulary: int, tokens: int, hours: Mapping[str, float]) -> Cost:
    """The estimate for a run so far.

    Args:
        vocabulary: its size.
        tokens: of the samples that went into global steps.
        hours: of sessions, by the names of their devices.
    """
    energy = sum(time * (watts_of(device) + REST_WATTS) for device, time in hours.items()) / 1000
    operations = 6.0 * tokens * weights_used(run, vocabulary)
    return Cost(operations, sum(hours.values()), energy, energy * CARBON)


def weights_used(run: RunFile, vocabulary: int) -> float:
    """Weights by which a token is multiplied, those of a shared layer once for each application; attention left out.

    A forward pass takes twice as many operations, a backward pass four times as many (Kaplan et al. 2020, section
    2.1). Only masked tokens are projected to the vocabulary.
    """
    model = run.model
    if model.architecture == "modernbert":  # its feed-forward layers have a gate
        layer = 4 * model.hidden_size**2 + 3 * model.hidden_size * model.intermediate_size
        projection = model.hidden_size * vocabulary + model.hidden_size**2
        return model.num_hidden_layers * layer + run.data.masked_fraction * projection
    layer = 4 * model.hidden_size**2 + 2 * model.hidden_size * model.intermediate_size
    projection = model.embedding_size * vocabulary + model.embedding_size * model.hidden_size
    return (
        model.num_hidden_layers * layer
        + model.embedding_size * model.hidden_size
        + run.data.masked_fraction * projection
    )


def watts_of(device: str) -> float:
    """The power of a device of this name at work."""
    return next((watts for pattern, watts in WATTS if re.search(pattern, device, re.IGNORECASE)), PROCESSOR_WATTS)
