"""Counting the tokens of the training text, beside the run, for the unigram loss on its held-out text."""

import copy
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from transformers import PreTrainedTokenizerFast

from coordinator.evaluation.unigram import unigram_loss
from corpus.documents import open_documents
from swarm.errors import in_a_line
from swarm.run_file import RunFile
from trainer.data import Batch
from trainer.data.batch import NOT_COUNTED
from trainer.data.sentences import tokenized_documents

FINISH_SECONDS = 2.0  # for the thread to end; one inside the tokenizer's library when Python ends aborts the process
COUNTED = 2_000_000  # tokens; more of a large text would change little, and take longer than a few seconds


class UnigramBaseline:
    """The unigram loss of a run, found by a thread: neither training nor the opening of the run waits for it.

    It is the same at every start: the documents that are counted are the first ones of each source of `data.train`, in
    the order in which they are stored, as many of each as its weight says, until there are `COUNTED` tokens.
    """

    def __init__(
        self,
        run: RunFile,
        tokenizer: PreTrainedTokenizerFast,
        held_out: Sequence[Batch],
        say: Callable[[str], None],
        stop: threading.Event,
    ):
        """It gives up when `stop` is set."""
        self.loss: float | None = None  # in nats; None until it is known
        self._run, self._held_out, self._say, self._stop = run, held_out, say, stop
        self._tokenizer = copy.deepcopy(tokenizer)  # one that two threads use raises "Already borrowed"
        self._thread = threading.Thread(target=self._find, name="unigram", daemon=True)

    def start(self) -> None:
        """Begin to count, if there is held-out text."""
        if self._held_out:
            self._thread.start()

    def finish(self) -> None:
        """Wait for the thread to end after `stop` was set, but not for a connection that hangs."""
        if self._thread.is_alive():
            self._thread.join(FINISH_SECONDS)

    def _find(self) -> None:
        try:
            documents = itertools.takewhile(lambda _: not self._stop.is_set(), training_documents(self._run))
            counts = count_tokens(documents, self._tokenizer, self._run.language)
            loss = unigram_loss(counts, masked_tokens(self._held_out))
        except Exception as error:  # the run does very well without
            self._say(f"The held-out loss is not compared with a table of word frequencies: {in_a_line(error)}")
            return
        if not self._stop.is_set():
            self.loss = loss


def training_documents(run: RunFile, sleep: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Those of `data.train`, once, its sources mixed by weight; how long a source takes does not change the order.

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
    """How often each token of the vocabulary is in the documents, of which those after `most` tokens are left out.

    Special tokens count zero: none of them is ever to be predicted.
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
    """The tokens that are to be predicted."""
    return [token for batch in batches for token in batch.masked_labels.tolist() if token != NOT_COUNTED]
