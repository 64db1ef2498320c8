"""The batches of the held-out evaluation."""

from collections.abc import Iterable

import numpy as np
from transformers import PreTrainedTokenizerFast

from corpus.documents import open_documents
from swarm.errors import DataError
from swarm.run_file import RunFile
from trainer.data.batch import Batch, Collator
from trainer.data.instances import Instance, make_instances
from trainer.data.sentences import tokenized_documents

HELD_OUT_FRACTION = 0.15  # of the tokens are masked, as BERT does
BATCH = 16  # samples: little memory, and enough to keep the processor busy


def read_held_out(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> list[Batch]:
    """The batches that the run is evaluated on; none if the run file names no held-out text.

    Raises:
        DataError: its sources cannot be read, or have no usable text.
    """
    if not run.data.validation:
        return []
    documents = open_documents(run, run.data.validation, seed=0, repeat=False, shuffle=False)
    return held_out_batches(run, documents, tokenizer, BATCH)


def held_out_batches(
    run: RunFile, documents: Iterable[str], tokenizer: PreTrainedTokenizerFast, batch_size: int
) -> list[Batch]:
    """Held-out documents as batches, always the same: fixed order, fixed masks, no short samples.

    15 % of the tokens are masked whatever the share in training, so that losses of different runs compare.

    Raises:
        DataError: the held-out sources have no usable text.
    """
    settings = run.data.model_copy(update={"short_sample_probability": 0.0, "masked_fraction": HELD_OUT_FRACTION})
    rng = np.random.default_rng(0)
    instances: list[Instance] = []
    for sentences in tokenized_documents(documents, tokenizer, run.language):
        instances.extend(make_instances(sentences, settings, rng, swap=run.model.learns_order))
        if len(instances) >= settings.validation_samples:
            break
    if not instances:
        raise DataError("data.validation: no usable text; give sources with longer documents")
    collator = Collator(tokenizer, settings)
    kept = instances[: settings.validation_samples]
    return [collator(kept[at : at + batch_size], rng) for at in range(0, len(kept), batch_size)]
