"""Muon (Jordan et al. 2024): the average of a matrix's gradient, moved to the nearest matrix with orthogonal rows.

All directions of a matrix then learn at the same rate, not the few in which the gradient is large. The step has the
size of Adam's, and the decay too (Liu et al. 2025, section 2.2), so that one learning rate serves both. The singular
values are brought to 1 by five odd polynomials (Polar Express, Amsel et al. 2025, table 1).

Peers have to get the same bits, and sums of floats depend on their order, which every processor and number of threads
chooses for itself. So all matrices are rounded to a grid that is coarse enough for each product and each sum to be an
integer below 2^53: in float64 these are exact, in whatever order.
"""

import math

import torch
from torch import Tensor

from swarm.run_file import OptimizerSection

# a, b, c of p(x) = a x + b x^3 + c x^5, for singular values from 0.001 to 1
POLYNOMIALS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)
SAFETY = 1.01  # each polynomial is made for singular values that are so much larger, which rounding may make them
ADAM_SIZE = 0.2  # root mean square of the elements of Adam's usual update

# Bits after the point, of the matrix and of polynomials of its square. On the way singular values are at most 2, so no
# row of the matrix is longer than 2, none of its square than 4, none of a polynomial than 8 before the first step and 4
# later. A sum of products is at most the product of two lengths: below 2^53.
MATRIX_BITS, SQUARE_BITS = 25, 24
NORM_BITS = 20  # that are kept of the norm: the last bits of a sum of floats depend on its order


@torch.no_grad()
def move_matrix(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    into: tuple[Tensor, Tensor],
    *,
    settings: OptimizerSection,
    scale: float,
    learning_rate: float,
) -> None:
    """Take the step of a matrix.

    A matrix with a zero gradient stays as it is, such as those around experts while no host is there: the step has the
    same size however small the average is, so it would go on long after the last gradient.

    Args:
        mean: the running average of the gradient.
        into: get the new parameter and mean.
        scale: of the gradient.
    """
    moved, new_mean = into
    if not gradient.any():
        moved.copy_(parameter)
        new_mean.copy_(mean)
        return
    own = gradient.double().mul_(scale * (1 - settings.momentum))
    new_mean.copy_(mean.double().mul_(settings.momentum).add_(own))
    ahead = new_mean.double().mul_(settings.momentum).add_(own)  # Nesterov's
    size = learning_rate * ADAM_SIZE * math.sqrt(max(parameter.shape))
    kept = 1 - learning_rate * settings.weight_decay
    moved.copy_(parameter.double().mul_(kept).sub_(orthogonalized(ahead).mul_(size)))


def orthogonalized(matrix: Tensor) -> Tensor:
    """The matrix with all singular values near 1, in float64; those below a thousandth of its norm stay smaller.

    Five steps leave them between 0.87 and 1.13, which Muon does not mind.
    """
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalized(matrix.T).T
    norm = float(torch.linalg.vector_norm(matrix, dtype=torch.float64))
    if norm == 0:
        return torch.zeros_like(matrix, dtype=torch.float64)
    mantissa, exponent = math.frexp(norm)
    norm = math.ldexp(math.ceil(mantissa * 2**NORM_BITS), exponent - NORM_BITS)
    ours = _on_grid(matrix.double() / (SAFETY * norm), MATRIX_BITS)
    for a, b, c in POLYNOMIALS:
        square = _on_grid(ours @ ours.T, SQUARE_BITS)
        fourth = _on_grid(square @ square, SQUARE_BITS)
        polynomial = _on_grid(square.mul_(b / SAFETY**3).add_(fourth.mul_(c / SAFETY**5)), SQUARE_BITS)
        ours = _on_grid((polynomial @ ours).add_(ours.mul_(a / SAFETY)), MATRIX_BITS)
    return ours


def _on_grid(values: Tensor, bits: int) -> Tensor:
    return values.mul_(2.0**bits).round_().mul_(2.0**-bits)
