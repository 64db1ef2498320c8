"""From documents to tokenized sentences: split by language, then one call of the tokenizer for many."""

from collections.abc import Iterable, Iterator
from typing import Any

from sentencex import segment
from transformers import PreTrainedTokenizerFast

BATCH_CHARACTERS = 200_000  # text handed to the tokenizer at once: enough to use its threads, little to wait for


def tokenized_documents(
    documents: Iterable[str], tokenizer: PreTrainedTokenizerFast, language: str
) -> Iterator[list[list[int]]]:
    """For each document the token ids of its sentences, without special tokens.

    Each sentence is tokenized once, many documents at a time. The first few documents go in smaller
    batches, so that the first sample is soon ready.
    """
    size = BATCH_CHARACTERS // 20
    waiting: list[list[str]] = []
    characters = 0
    for document in documents:
        waiting.append(split_sentences(document, language))
        characters += len(document)
        if characters >= size:
            yield from _tokenize(waiting, tokenizer)
            waiting, characters, size = [], 0, min(2 * size, BATCH_CHARACTERS)
    if waiting:
        yield from _tokenize(waiting, tokenizer)


def split_sentences(document: str, language: str) -> list[str]:
    """The sentences of a document; line breaks end one too, as in verse and headings."""
    sentences: list[str] = []
    for line in document.splitlines():
        if line := line.strip():
            sentences.extend(sentence.strip() for sentence in segment(language, line) if sentence.strip())
    return sentences


def _tokenize(documents: list[list[str]], tokenizer: PreTrainedTokenizerFast) -> Iterator[list[list[int]]]:
    engine: Any = tokenizer.backend_tokenizer
    # the engine keeps the settings of its last caller, or of the file it was loaded from
    engine.no_truncation()
    engine.no_padding()
    flat = [sentence for sentences in documents for sentence in sentences]
    encoded = iter(engine.encode_batch_fast(flat, add_special_tokens=False))
    for sentences in documents:
        yield [next(encoded).ids for _ in sentences]
