"""Loads and saves the tokenizer of a run, and identifies it by a digest."""

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from swarm.errors import TokenizerError
from swarm.files import foreign_entry, whole_directory
from swarm.run_file import RunFile
from swarm.secret_variables import hub_token

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# The tokens that samples are built with
NEEDED_TOKENS = ("pad_token", "cls_token", "sep_token", "mask_token")
SAVED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")  # what a saved tokenizer consists of


def load_tokenizer(run: RunFile) -> "PreTrainedTokenizerFast":
    """The tokenizer that the run file names: a folder beside it or, if there is none, a Hub repository.

    It gives, also where it is saved beside the model, what the model takes.

    Raises:
        TokenizerError: it is missing, unreadable, or lacks a token that samples are built with.
    """
    tokenizer = _named_tokenizer(run)
    if run.model.architecture == "modernbert":
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    return tokenizer


def _named_tokenizer(run: RunFile) -> "PreTrainedTokenizerFast":
    folder = run.resolve(run.tokenizer.path)
    if folder.is_dir():
        return read_tokenizer(str(folder))
    if not is_hub_name(run.tokenizer.path):
        raise TokenizerError(f"{folder}: no such tokenizer folder; make it with `sahaj tokenizer train RUN`")
    try:
        return read_tokenizer(run.tokenizer.path)
    except TokenizerError as error:
        raise TokenizerError(f"{error} (there is no folder {folder} either)") from None


def read_tokenizer(name: str) -> "PreTrainedTokenizerFast":
    """A fast tokenizer of Transformers with the tokens a sample needs, from a folder or a Hub repository.

    Raises:
        TokenizerError: it is missing, unreadable, or lacks a token.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, token=hub_token(), trust_remote_code=False)
    except Exception as error:
        # a broken file surfaces as an error of json, tokenizers, huggingface_hub or transformers alike
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise TokenizerError(
            f"{name}: no readable tokenizer ({reason}); make one with `sahaj tokenizer train RUN`"
        ) from None
    if not tokenizer.is_fast:
        raise TokenizerError(f"{name}: not a fast tokenizer; its folder must hold a tokenizer.json")
    missing = [token for token in NEEDED_TOKENS if getattr(tokenizer, token) is None]
    if missing:
        raise TokenizerError(f"{name}: the tokenizer has no {', '.join(missing)}; set it in its tokenizer_config.json")
    return cast("PreTrainedTokenizerFast", tokenizer)


def is_hub_name(name: str) -> bool:
    """Whether this may be owner/name on the Hub."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) is not None


def save_tokenizer(tokenizer: "PreTrainedTokenizerFast", folder: Path) -> None:
    """Write a folder that `AutoTokenizer.from_pretrained` loads; an older tokenizer there is replaced as a whole.

    Raises:
        TokenizerError: there is something else in `folder`.
        StorageError: it cannot be written.
    """
    check_replaceable(folder)
    with whole_directory(folder) as partial:
        tokenizer.save_pretrained(partial)


def check_replaceable(folder: Path) -> None:
    """Refuse to replace anything but a tokenizer.

    Raises:
        TokenizerError: there is something else in `folder`.
        StorageError: it is no folder, or cannot be read.
    """
    if foreign := foreign_entry(folder, SAVED):
        raise TokenizerError(
            f"{folder}: holds something other than a tokenizer ({foreign}), which would be deleted; set tokenizer.path "
            "in the run file (or --out) to a new folder"
        )


def tokenizer_digest(tokenizer: "PreTrainedTokenizerFast") -> str:
    """SHA-256, in hex, of all that decides how the tokenizer cuts text, and of nothing else."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    # these depend on the last call
    content.pop("truncation", None)
    content.pop("padding", None)
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
