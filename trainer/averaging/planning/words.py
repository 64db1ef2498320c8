"""What a volunteer is told of a role, and why it is this one."""

from collections.abc import Sequence

MEGABIT = 1e6 / 8
from trainer.averaging.planning.plan import Peer, Plan, Role


def explanation(plan: Plan, peers: Sequence[Peer], number: int) -> str:
    """What peer `number` does and why, in a sentence.

    Args:
        plan: made for `peers`.
    """
    peer, role = peers[number], plan.roles[number]
    part = plan.parts[number] / sum(plan.parts)
    upload = f"{peer.upload / MEGABIT:.3g} Mbit/s up"
    if role is Role.AGGREGATING_TRAINER:
        return f"you compute gradients, and your line carries {part:.0%} of the averaging"
    if role is Role.TRAINER and peer.client_mode:
        return "nobody can connect to this computer: you send gradients, others average them"
    if role is Role.TRAINER:
        return f"your line is slow ({upload}): you send gradients, others average them"
    if role is Role.AGGREGATOR and peer.samples_per_second:
        return f"your line ({upload}) outweighs your processor: you only average, {part:.0%} of all"
    if role is Role.AGGREGATOR:
        return f"you compute no gradients: you average {part:.0%} for the others"
    if peer.samples_per_second:
        return f"your line is too slow ({upload}): all would wait for your gradients; for now you only follow the model"
    return "you compute no gradients and average nothing: you follow the model"
