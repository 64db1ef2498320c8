"""From documents to masked batches, in the background."""

from trainer.data.batch import Batch
from trainer.data.batch_prefetcher import BatchPrefetcher, validation_batches

__all__ = ["Batch", "BatchPrefetcher", "validation_batches"]
