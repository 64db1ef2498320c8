"""What a peer does, in the few words of its console."""

from averaging.shell.shell import Progress
from swarm.language import _
from trainer.pausing.decision import Pause


def status_of(progress: Progress, pause: Pause | None = None, *, has_state: bool, lacks_text: bool = False) -> str:
    """What a peer does, in a few words."""
    if pause is not None:
        return _("pausing: {reason}").format(reason=pause.reason)
    if not has_state:
        return _("loading the state of the run") if progress.peers > 1 else _("waiting for the others")
    if progress.is_behind:
        return _("catching up with the others")
    if progress.in_round:
        return _("averaging")
    if progress.rests:
        return _("averaging for the others") if progress.share else _("following the others")
    if lacks_text:
        return _("waiting for text")
    return _("training") if progress.peers > 1 else _("training alone until others join")
