"""The section of the run file about experts on machines of volunteers (docs/experts.md)."""

import math
from typing import Annotated

from pydantic import Field, model_validator

from swarm.run_file.section import Count, Seconds, Section

LARGEST_GRID = 4096  # trainers look at all that are alive


class ExpertsSection(Section):
    """Experts, and how the model's last layer uses them."""

    grid: Annotated[list[Count], Field(min_length=1, max_length=4)] = Field(
        default_factory=lambda: [8, 8],
        description="sizes of the dimensions of the grid; their product is how many experts",
    )
    width: Count = Field(256, description="of the rows that travel to experts")
    hidden: Count = Field(1024, description="width of the hidden layer of each expert")
    experts_of_a_row: Count = Field(2, description="experts that are called for each row")
    off_share: float = Field(0.15, ge=0, lt=1, description="share of the training batches in which no expert is called")
    balancing: float = Field(0.01, ge=0, description="weight of the loss that keeps the gate from using a few alone")
    learning_rate: float = Field(1e-3, gt=0, description="of each expert's Adam, at its highest")
    timeout: Seconds = Field(3.0, description="seconds that a trainer waits for hosts, forward and again backward")

    @model_validator(mode="after")
    def grid_fits(self) -> "ExpertsSection":
        """There are enough experts for a row, and not too many to look at."""
        count = math.prod(self.grid)
        if count > LARGEST_GRID:
            raise ValueError(f"grid must have room for at most {LARGEST_GRID} experts, got {self.grid} for {count}")
        if self.experts_of_a_row > count:
            raise ValueError(
                f"experts_of_a_row must be at most the number of experts in the grid, got {self.experts_of_a_row} "
                f"and {self.grid} for {count}"
            )
        return self
