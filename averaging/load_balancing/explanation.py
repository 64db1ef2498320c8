"""What a volunteer is told when the plan gives this peer another role."""


def explanation(*, trains: bool, share: float, upload: float | None) -> str:
    """What the peer does from now on, and why, in a sentence.

    Args:
        share: of the averaging that it does.
        upload: of its line, in Mbit/s; None: it is not known.
    """
    line = "your line" if upload is None else f"your line ({upload:.3g} Mbit/s up)"
    if trains and share:
        return f"This computer computes gradients again, and does {share:.0%} of the averaging."
    if trains:
        return "This computer computes gradients again; others average them."
    if share:
        return f"Now {line} outweighs your processor: this computer only averages, {share:.0%} of all."
    return f"Now {line} is too slow: all would wait for your gradients, so this computer only follows the model."
