"""Weights & Biases as a mirror of a run's figures."""

import logging
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coordinator.public_run import for_everybody
from swarm.errors import in_a_line
from swarm.files import write_file
from swarm.run_file import RunFile
from swarm.secret_variables import secret

logger = logging.getLogger(__name__)

KEY = "WANDB_API_KEY"
START_SECONDS = 60.0  # to reach the server, after which figures are kept on disk


class WandbMirror:
    """Continues the curve of an earlier start from this folder, or begins one.

    Without a key or a connection, and with WANDB_MODE=offline, the figures go to `folder/wandb`, and `wandb sync`
    sends them.
    """

    def __init__(self, run: RunFile, project: str, folder: Path) -> None:
        import wandb

        self._run, self._project, self._folder = run, project, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._wandb = self._start(wandb)

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Send the figures of a global step."""
        self._wandb.log({**figures, "global_step": step})

    def finish(self) -> None:
        """Send what is left."""
        self._wandb.finish()

    def _start(self, wandb: Any) -> Any:
        mode = wandb.setup(wandb.Settings(silent=True)).settings.mode
        if mode in ("offline", "disabled"):
            return self._open(wandb, mode)
        try:
            if not (secret(KEY) or wandb.login(prompt=False, verify=False)):
                raise ValueError("no key; run `wandb login`")
            return self._open(wandb, mode)
        except Exception as error:
            logger.warning(
                "wandb: %s; figures are kept in %s, and `wandb sync` sends them",
                in_a_line(error),
                self._folder / "wandb",
            )
            wandb.teardown()  # or the id counts as in use by the failed start
            return self._open(wandb, "offline")

    def _open(self, wandb: Any, mode: str) -> Any:
        settings = wandb.Settings(
            api_key=secret(KEY) or None,
            init_timeout=START_SECONDS,
            finish_timeout=10.0,
            # nothing about the machine and its code is sent; the console is Rich's
            console="off",
            silent=True,
            disable_code=True,
            disable_git=True,
            x_disable_stats=True,
            x_disable_machine_info=True,
        )
        identity = self._folder / "wandb-id"  # so that a restarted coordinator continues the curve
        if not identity.is_file():
            write_file(identity, secrets.token_hex(4))
        mirror = wandb.init(
            project=self._project,
            name=self._run.name,
            id=identity.read_text(encoding="utf-8").strip(),
            resume="allow",
            dir=str(self._folder),
            mode=mode,
            config=for_everybody(self._run).model_dump(mode="json", exclude={"coordinator"}),
            settings=settings,
        )
        mirror.define_metric("*", step_metric="global_step")  # wandb's own counter refuses a step that comes late
        return mirror
