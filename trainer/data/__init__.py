"""From documents to masked batches, in the background."""

from trainer.data.batch import Batch
from trainer.data.prefetch import Feed, validation_batches

__all__ = ["Batch", "Feed", "validation_batches"]
