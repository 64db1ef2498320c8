"""The loss of the unigram model, a table of token frequencies: the baseline for held-out losses.

A model with this loss knows which words are common and nothing else.
"""

import copy
import itertools
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean

from transformers import PreTrainedTokenizerFast

from corpus.documents import open_documents
from swarm.errors import in_a_line
from swarm.run_file import RunFile
from trainer.data import Batch
from trainer.data.batch import NOT_COUNTED
from trainer.data.sentences import tokenized_documents

# for the thread to end: were it in the tokenizers library at Python's end, the process would abort
FINISH_SECONDS = 2.0
FIRST_PAUSE, LONGEST_PAUSE = 15.0, 1800.0  # seconds between two attempts
COUNTED = 2_000_000  # tokens, a few seconds' work; more would change little


def unigram_loss(counts: Sequence[int], tokens: Iterable[int]) -> float:
    """The mean of -log p over tokens, in nats, where p comes from counts with add-one (Laplace) smoothing.

    Args:
        counts: of every token of the vocabulary in the training text.
        tokens: those at masked positions of held-out text.

    Raises:
        ValueError: there is no token.
    """
    total = sum(counts) + len(counts)
    return fmean(math.log(total / (counts[token] + 1)) for token in tokens)


class UnigramBaseline:
    """The unigram loss of a run, computed in a thread for which nothing waits.

    It is the same at every start: the first documents of each source of `data.train` are counted, in the order in which
    they are stored, in proportion to the sources' weights, until there are `COUNTED` tokens.
    """

    def __init__(
        self,
        run: RunFile,
        tokenizer: PreTrainedTokenizerFast,
        held_out: Sequence[Batch],
        say: Callable[[str], None],
        stop: threading.Event,
    ):
        """The thread ends early when `stop` is set."""
        self.loss: float | None = None  # nats; None until it is known
        self._run, self._held_out, self._say, self._stop = run, held_out, say, stop
        self._tokenizer = copy.deepcopy(tokenizer)  # one that two threads use raises "Already borrowed"
        self._thread = threading.Thread(target=self._find, name="unigram", daemon=True)

    def start(self) -> None:
        """Start to count, if there is held-out text."""
        if self._held_out:
            self._thread.start()

    def finish(self) -> None:
        """Wait for the thread to end after `stop` was set, but only briefly: its connection may hang."""
        if self._thread.is_alive():
            self._thread.join(FINISH_SECONDS)

    def _find(self) -> None:
        pause, is_told = FIRST_PAUSE, False
        while not self._stop.is_set():
            try:
                documents = itertools.takewhile(lambda _: not self._stop.is_set(), training_documents(self._run))
                counts = count_tokens(documents, self._tokenizer, self._run.language)
                loss = unigram_loss(counts, masked_tokens(self._held_out))
            except Exception as error:  # the run does not need it
                if not is_told:
                    is_told = True
                    self._say(
                        "The held-out loss is not yet compared with guessing from word frequencies "
                        f"({in_a_line(error)}); the text is tried again"
                    )
                self._stop.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self.loss = None if self._stop.is_set() else loss
                return


def training_documents(run: RunFile, sleep: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """The documents of `data.train`, once, with sources mixed by weight. Slow sources do not change the order.

    Args:
        sleep: how to wait for a source.
    """
    rng = random.Random(0)
    sources = [
        (iter(open_documents(run, [one], seed=0, repeat=False, shuffle=False, sleep=sleep)), one.weight)
        for one in run.data.train
    ]
    while sources:
        chosen = rng.choices(sources, [weight for _, weight in sources])[0]
        document = next(chosen[0], None)
        if document is None:
            sources.remove(chosen)
        else:
            yield document


def count_tokens(
    documents: Iterable[str], tokenizer: PreTrainedTokenizerFast, language: str, most: int = COUNTED
) -> list[int]:
    """How often each token of the vocabulary occurs in the first `most` tokens of the documents.

    Special tokens count zero, for they are never predicted.
    """
    counted, tokens = Counter[int](), 0
    for sentences in tokenized_documents(documents, tokenizer, language):
        counted.update(itertools.chain.from_iterable(sentences))
        tokens += sum(map(len, sentences))
        if tokens >= most:
            break
    special = set(tokenizer.all_special_ids)
    return [0 if token in special else counted[token] for token in range(len(tokenizer))]


def masked_tokens(batches: Iterable[Batch]) -> list[int]:
    """The tokens at masked positions."""
    return [token for batch in batches for token in batch.masked_labels.tolist() if token != NOT_COUNTED]
