"""The whole linear program of DeDLOC (Diskin et al. 2021, section 3.2 and its appendix), for given trainers, by HiGHS.

It says what an optimal round is; `closed_form.py` has the same optimum in closed form, and tests and
`benchmarks/plan.py` hold the one against the other. A plan is made by the closed form: n peers have 2 n^2 unknowns and
n^3 inequalities here, and where several splits are best a solver may give another one in its next release, but all
members of a group have to find the same.

Unknowns, in vectors a second: a_ki, gradients that trainer k sends to i, and g_ij, means that i sends to j (for
k = i and i = j what stays in a peer's memory and uses no line), and the rate xi of rounds.

    maximize xi
    sum_i g_ij >= xi                              everybody gets a whole mean in each round
    g_ij <= a_ki               for trainers k     a mean is sent no sooner than the gradients for it have come
    sum_{i != j} (a_ji + g_ji) <= U_j             what j sends
    sum_{i != j} (a_ij + g_ij) <= D_j             what j gets
    sum_i a_ki <= xi           for trainers k     an element is averaged once, in one place
    a_ki = g_ij = 0            for i in client mode

The paper does not write the last inequality. Without it a peer may average elements for itself that others average,
too: a relaxation that no all-reduce with one owner for each part carries out. `averaged_once=False` solves it for
comparison.
"""

from itertools import product

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from averaging.load_balancing.closed_form import Flags, Lines


def round_rate(lines: Lines, trains: Flags, *, averaged_once: bool = True) -> float:
    """The greatest number of rounds in a second, xi; 0 where no round ever ends.

    Args:
        lines: of n >= 2 peers.
        trains: who sends gradients, [n]; at least one.

    Raises:
        RuntimeError: the solver gave up.
    """
    peers = len(trains)
    trainers = np.flatnonzero(trains)
    rate = 2 * peers * peers  # the place of xi among the unknowns
    terms: list[tuple[int, int, float]] = []
    limits: list[float] = []

    def sent(k: int, i: int) -> int:
        return k * peers + i

    def returned(i: int, j: int) -> int:
        return peers * peers + i * peers + j

    def at_most(limit: float, *row: tuple[int, float]) -> None:
        terms.extend((len(limits), unknown, factor) for unknown, factor in row)
        limits.append(limit)

    for j in range(peers):
        others = [i for i in range(peers) if i != j]
        at_most(0.0, (rate, 1.0), *((returned(i, j), -1.0) for i in range(peers)))
        at_most(float(lines.upload[j]), *((of(j, i), 1.0) for i in others for of in (sent, returned)))
        at_most(float(lines.download[j]), *((of(i, j), 1.0) for i in others for of in (sent, returned)))
    for k in trainers:
        for i, j in product(range(peers), repeat=2):
            at_most(0.0, (returned(i, j), 1.0), (sent(k, i), -1.0))
        if averaged_once:
            at_most(0.0, (rate, -1.0), *((sent(k, i), 1.0) for i in range(peers)))
    highest: list[float | None] = [None] * (rate + 1)
    for i, j in product(range(peers), repeat=2):
        if not lines.reachable[i]:
            highest[returned(i, j)] = highest[sent(j, i)] = 0.0
        if not trains[i]:
            highest[sent(i, j)] = 0.0
    rows, columns, factors = zip(*terms, strict=True)
    goal = np.zeros(rate + 1)
    goal[rate] = -1.0
    solved = linprog(
        goal,
        A_ub=coo_array((factors, (rows, columns)), shape=(len(limits), rate + 1)).tocsr(),
        b_ub=limits,
        bounds=[(0.0, high) for high in highest],
        method="highs",
    )
    if not solved.success:
        raise RuntimeError(f"the linear program of {peers} peers was not solved: {solved.message}")
    return float(solved.x[rate])
