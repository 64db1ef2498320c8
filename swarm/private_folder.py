"""Only its owner reads the folder of a peer: what is in it, and what the peer writes from now on."""

import os
import stat
from pathlib import Path

OTHERS = 0o077  # all rights of the group and of everybody else


def keep_private(folder: Path) -> str | None:
    """Take the rights of others from all files and folders in `folder`, and give none to files written later.

    The latter is for this process and its helpers as a whole: libraries write into the folder, too. Links in it are
    not followed.

    Returns:
        In one line what others can still read, or None.
    """
    os.umask(OTHERS)
    unchanged = []
    for place, _, files in os.walk(folder.resolve()):
        for path in (Path(place), *(Path(place, name) for name in files)):
            try:
                mode = path.lstat().st_mode
                if mode & OTHERS and not stat.S_ISLNK(mode):
                    path.chmod(stat.S_IMODE(mode) & ~OTHERS)
            except FileNotFoundError:  # a half-written file that has its name now
                continue
            except OSError as error:
                unchanged.append(f"{path}: others may read it ({error.strerror})")
    if not unchanged:
        return None
    more = f", and {len(unchanged) - 1} more" if len(unchanged) > 1 else ""
    return f"attention: {unchanged[0]}{more}; make {folder} your own with chown, or choose another one with --state"
