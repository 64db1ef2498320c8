"""Trains the tokenizer of a run: a Unigram model by the sahajBERT recipe, wrapped as ALBERT's tokenizer."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from rich.console import Console
from tokenizers import Tokenizer, processors

from swarm.display.progress_bar import ProgressBar
from swarm.errors import TokenizerError
from swarm.run_file import RunFile
from tokenizer.alphabet import certain_characters, with_common_characters
from tokenizer.normalization import SPACE, build_normalizer, rules_of
from tokenizer.unigram import CLS, MASK, PAD, SEP, SPECIAL_TOKENS, UNKNOWN, UnigramSettings, train_unigram

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def train_tokenizer(
    run: RunFile, documents: Iterable[str], *, progress: Console | None = None
) -> "PreTrainedTokenizerFast":
    """A Unigram tokenizer of `tokenizer.vocab_size` tokens, trained on at most `max_documents` documents.

    A small text yields fewer tokens than were asked for; a line on the console says so.

    Args:
        run: gives the language and the settings under `tokenizer`.
        documents: training text; each document is read once.
        progress: where to show the progress; None is silent.

    Raises:
        TokenizerError: there is no text, or `tokenizer.vocab_size` is too small for its characters.
        DataError: from `documents`.
    """
    section = run.tokenizer
    settings = UnigramSettings(
        language=run.language,
        lowercase=section.lowercase,
        vocab_size=section.vocab_size,
        certain=certain_characters(
            rules_of(run.language).alphabet, lowercase=section.lowercase, vocab_size=section.vocab_size
        ),
    )
    with ProgressBar(progress, "reading text", section.max_documents) as bar:
        texts = with_common_characters(
            islice(documents, section.max_documents),
            settings.certain,
            lambda alphabet: _check_size(alphabet, settings),
        )
        engine = train_unigram(settings, _shown(texts, bar))
    size = engine.get_vocab_size()
    if progress is not None and size < section.vocab_size:
        progress.print(
            f"The text is small: it yields {size:,} tokens, not tokenizer.vocab_size {section.vocab_size:,}.",
            soft_wrap=True,
        )
    return as_albert_tokenizer(engine, run.data.max_length)


def as_albert_tokenizer(engine: Tokenizer, max_length: int) -> "PreTrainedTokenizerFast":
    """The engine as a Transformers tokenizer that frames one or two segments as ALBERT does."""
    from transformers import PreTrainedTokenizerFast

    engine.post_processor = processors.TemplateProcessing(
        single=f"{CLS}:0 $A:0 {SEP}:0",
        pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
        special_tokens=[(token, engine.token_to_id(token)) for token in (CLS, SEP)],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=engine,
        model_max_length=max_length,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        bos_token=CLS,
        eos_token=SEP,
        cls_token=CLS,
        sep_token=SEP,
        pad_token=PAD,
        unk_token=UNKNOWN,
        mask_token=MASK,
    )


def _shown(texts: Iterable[str], bar: ProgressBar) -> Iterator[str]:
    """The texts, counted on the bar; after the last one the trainer learns in silence."""
    size, figures = 0, "0 documents"
    for number, text in enumerate(texts, start=1):
        size += len(text.encode())
        figures = f"{number:,} documents, {size / 1e6:,.1f} MB"
        bar.update(number, figures=figures)
        yield text
    bar.begin_stage("learning tokens", f"learning tokens from {figures}")


def _check_size(alphabet: frozenset[str], settings: UnigramSettings) -> None:
    """Each character of the text takes a token, in the form that normalization gives it."""
    normalizer = build_normalizer(settings.language, lowercase=settings.lowercase)
    characters = {part for character in alphabet for part in normalizer.normalize_str(character)} | {SPACE}
    least = len(characters) + len(SPECIAL_TOKENS)
    if least > settings.vocab_size:
        raise TokenizerError(
            f"tokenizer.vocab_size must be at least {least}, as this text has {len(characters)} characters, "
            f"got {settings.vocab_size}"
        )
