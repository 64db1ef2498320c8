"""Pauses that are too long to stay in the run: the peer leaves, and its process begins again and waits.

So a pause of hours takes little memory and nothing of the line, and going on is joining.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from swarm.language import _, current, speak
from swarm.secret_variables import hidden_secrets
from trainer.pausing.daily_traffic import FILE_NAME, DailyTraffic
from trainer.pausing.machine import Machine
from trainer.pausing.watch import PauseWatch
from trainer.pausing.wishes import Wishes

BEGAN_AGAIN = "SAHAJ_BEGAN_AGAIN"  # in the environment of a process that has begun again: language, peer's folder
LOOK_EVERY = 2.0  # seconds, while nothing is computed that somebody could wait for


def came_from_pause() -> Path | None:
    """The folder of this peer if its process has begun again for a pause that was too long to stay; asked once."""
    language, _space, folder = os.environ.pop(BEGAN_AGAIN, "").partition(" ")
    if not folder:
        return None
    speak(language)
    return Path(folder)


def watch_for(
    wishes: Wishes,
    peer_folder: Path,
    order: Path | None,
    on_page: Callable[[], bool] = lambda: False,
    *,
    is_first: bool,
) -> PauseWatch:
    """What says when to pause.

    Args:
        order: a file that is there while the volunteer wants a pause.
        on_page: whether they have ordered one on their page.
        is_first: see that the wishes can be kept; a process that has begun again goes by them, whatever answers now.

    Raises:
        WishError: this machine does not tell what the wishes ask for.
    """
    traffic = DailyTraffic(peer_folder / FILE_NAME) if wishes.max_traffic is not None else None
    machine = Machine(wishes, traffic, order, on_page)
    if is_first:
        machine.check()
    return PauseWatch(wishes, machine.facts, traffic)


def wait_until_over(watch: PauseWatch, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> bool:
    """Wait while the trainer would have to pause; it is in no run yet. Returns whether it had to wait."""
    said = None
    while (pause := watch.look()) is not None:
        if pause != said:
            said = pause
            say(_("Not joining yet: {reason}.").format(reason=pause.reason))
        sleep(LOOK_EVERY)
    return said is not None


def begin_again(peer_folder: Path) -> NoReturn:
    """Become the same command anew. Secrets are handed over as a person would, and hidden again at once."""
    with contextlib.suppress(OSError, AttributeError):  # as without a terminal, or any output
        sys.stdout.flush()
    os.environ.update({**hidden_secrets(), BEGAN_AGAIN: f"{current()} {peer_folder.absolute()}"})
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
