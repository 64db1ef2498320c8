"""Unigram training (Kudo 2018, arXiv:1804.10959) in a process of its own.

The library trains in one long call that ignores Ctrl-C and crashes the process on some texts. In a child process the
caller can handle both, and the trainer's memory is freed.
"""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from tokenizers import AddedToken, Tokenizer, decoders, models, trainers

from swarm.errors import TokenizerError
from tokenizer.normalization import SPACE, build_normalizer, build_pre_tokenizer

# ALBERT's, with the numbers that AlbertConfig has for them: padding 0, [CLS] 2, [SEP] 3
SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL_TOKENS


@dataclass(frozen=True)
class UnigramSettings:
    """What the trainer needs besides the text."""

    language: str
    lowercase: bool
    vocab_size: int
    certain: tuple[str, ...]
    """Characters that get a token even if the text lacks them."""


def train_unigram(settings: UnigramSettings, texts: Iterable[str]) -> Tokenizer:
    """A trained tokenizer: normalization, pre-tokenization, Unigram model and decoder.

    Raises:
        TokenizerError: the trainer failed on this text.
        Exception: as `texts` raises.
    """
    with subprocess.Popen(
        # the same packages as here: a file tokenizer.py where the command was typed is not this one
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; from tokenizer.unigram import serve; serve()"],
        start_new_session=True,  # a terminal's Ctrl-C does not reach it; it is killed below
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        try:
            try:
                child.stdin.write(_line(asdict(settings)))
                for text in texts:
                    child.stdin.write(_line(text))
                child.stdin.write(_line(None))
            except BrokenPipeError:
                pass  # it has died; its standard error says why
            trained, complaint = child.communicate()
        finally:
            child.kill()
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()  # flushes what is left, and the child may be gone
    if child.returncode != 0:
        words = complaint.decode(errors="replace").strip().splitlines()
        reason = words[-1] if words else f"it ended with status {child.returncode}"
        raise TokenizerError(f"the Unigram trainer failed on this text ({reason}); try different text, or less of it")
    return Tokenizer.from_str(trained.decode())


def serve() -> None:
    """The child's side: settings and texts come in as lines of JSON, the trained tokenizer goes out."""
    received = json.loads(sys.stdin.buffer.readline())
    settings = UnigramSettings(**{**received, "certain": tuple(received["certain"])})
    engine = Tokenizer(models.Unigram())
    engine.normalizer = build_normalizer(settings.language, lowercase=settings.lowercase)
    engine.pre_tokenizer = build_pre_tokenizer()
    engine.decoder = decoders.Metaspace(replacement=SPACE)
    trainer = trainers.UnigramTrainer(
        vocab_size=settings.vocab_size,
        # the mask takes the space before it along, as a word does
        special_tokens=[AddedToken(token, special=True, lstrip=token == MASK) for token in SPECIAL_TOKENS],
        unk_token=UNKNOWN,
        initial_alphabet=list(settings.certain),
        show_progress=False,
    )
    engine.train_from_iterator(_received_texts(), trainer)
    sys.stdout.buffer.write(engine.to_str().encode())


def _received_texts() -> Iterator[str]:
    for line in sys.stdin.buffer:
        text = json.loads(line)
        if text is None:
            return
        yield text
    raise EOFError("the process that sends the text is gone")


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
