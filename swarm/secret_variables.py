"""Secrets in environment variables: they are read when the program starts, and are in its environment no longer.

Helper processes have no use for them: those of hivemind, libp2p's daemon, the tokenizer's trainer, and wandb. A
forked process shows the environment with which its parent was started (/proc/PID/environ), whatever was unset since, so
the memory that holds the value is overwritten.
"""

import ctypes
import os

WEBHOOKS = "SAHAJ_WEBHOOKS"  # URLs to which a coordinator sends news of its run
NAMES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "PGPASSWORD", WEBHOOKS)

_hidden: dict[str, str] = {}


def hide_secrets() -> None:
    """Take the secrets out of this process's environment; call it before any other process is started."""
    for name in NAMES:
        if name in os.environ:
            _hidden[name] = os.environ[name]
            _overwrite(name)
            del os.environ[name]


def hide(name: str, value: str) -> None:
    """Keep what a person has typed as if it had been in a variable."""
    _hidden[name] = value


def hidden_secrets() -> dict[str, str]:
    """What was taken out of the environment, or typed, by the names of the variables."""
    return dict(_hidden)


def secret(name: str) -> str:
    """The value of a variable, whether it was taken out of the environment or not; empty if it is not set."""
    return (os.environ.get(name) or _hidden.get(name, "")).strip()


def hub_token() -> str | None:
    """The Hugging Face token: of a variable, else of the saved login; None if there is none."""
    if given := secret("HF_TOKEN") or secret("HUGGING_FACE_HUB_TOKEN"):
        return given
    from huggingface_hub import get_token

    return get_token()


def _overwrite(name: str) -> None:
    getenv = ctypes.CDLL(None).getenv
    getenv.argtypes, getenv.restype = [ctypes.c_char_p], ctypes.c_void_p
    if value := getenv(name.encode()):
        ctypes.memset(value, 0, len(ctypes.string_at(value)))
