"""The words in which the console says what a peer does."""

from averaging.shell.shell import Progress


def status_of(progress: Progress, *, has_state: bool) -> str:
    """What a peer does, in a few words."""
    if not has_state:
        return "loading the state of the run" if progress.peers > 1 else "waiting for the others"
    if progress.is_behind:
        return "catching up with the others"
    if progress.in_round:
        return "averaging"
    if progress.rests:
        return "averaging for the others" if progress.share else "following the others"
    return "training" if progress.peers > 1 else "training alone until others join"
