"""Trackio as a mirror of a run's figures: a Space of the Hub, or a server of one's own.

Trackio writes to standard output and takes its token from the environment, so it runs in a process of its own. That is
no child of the coordinator's: it is left time to send what is left when the coordinator has ended.
"""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from coordinator.public_run import for_everybody
from coordinator.tracking.curve_id import curve_id
from coordinator.tracking.trackio_process import Opening
from swarm.errors import in_a_line
from swarm.run_file import RunFile
from swarm.secret_variables import hub_token, secret

logger = logging.getLogger(__name__)

WRITE_TOKEN = "TRACKIO_WRITE_TOKEN"  # of a server of one's own


class TrackioMirror:
    """Continues the curve of an earlier start from this folder, or begins one.

    Figures that cannot be sent are kept in `folder/trackio`.

    Raises:
        OSError: the folder cannot be made, or the process not started.
        StorageError: the folder cannot be written.
    """

    def __init__(self, run: RunFile, where: str, folder: Path) -> None:
        own_server = "://" in where
        self._where, kept = where, folder / "trackio"
        kept.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "coordinator.tracking.trackio_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is the coordinator's, which then sends what is left
        )
        self._process.wait()  # it has left another one behind
        self._warnings = threading.Thread(target=self._log_warnings, name="trackio-warnings", daemon=True)
        self._warnings.start()
        opening = Opening(
            project=run.name,
            name=f"{run.name}-{curve_id(folder / 'trackio-id')}",
            config=for_everybody(run).model_dump(mode="json", exclude={"coordinator"}),
            folder=str(kept),
            server_url=where if own_server else None,
            space_id=None if own_server else where,
            token=secret(WRITE_TOKEN) if own_server else hub_token() or "",
        )
        self._send(opening._asdict())

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the figures of a global step."""
        self._send([step, dict(figures)])

    def finish(self) -> None:
        """Send what is left, for a minute at most."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._warnings.join()

    def _send(self, content: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(content) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError("its process has ended") from None

    def _log_warnings(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            logger.warning("trackio, to %s: %s", self._where, in_a_line(line))
