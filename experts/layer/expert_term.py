"""What experts on other machines add to the last feed-forward block, at the rows that a model's heads read."""

import torch
from torch import Tensor, nn

from experts.calls import NoExperts
from experts.layer.mixture import MixtureOfExperts
from swarm.run_file import ExpertsSection

NAME = "expert_term"  # of this module in a model: the names of its parameters begin with it


class ExpertTerm(nn.Module):
    """Its parameters go through the log as all others do. It adds zero until `mixture.caller` reaches experts."""

    def __init__(self, settings: ExpertsSection, trunk_width: int):
        super().__init__()
        self.settings = settings
        self.mixture = MixtureOfExperts(
            trunk_width,
            settings.width,
            tuple(settings.grid),
            NoExperts(),
            experts_of_a_row=settings.experts_of_a_row,
            off_share=settings.off_share,
        )

    @torch.compiler.disable  # it waits for other machines
    def forward(self, rows: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """What to add to the rows, [N, width]; and what to add to the loss, a scalar that is zero out of training.

        Args:
            rows: [N, width], as they go into the feed-forward block.
            count: bool, [N]; nothing is added to the other rows, which are padding.
        """
        places = count.nonzero().squeeze(1)
        mixture = self.mixture(rows.index_select(0, places))
        added = torch.zeros_like(rows).index_copy(0, places, mixture.added.to(rows.dtype))
        return added, mixture.balancing_loss * (self.settings.balancing if self.training else 0.0)
