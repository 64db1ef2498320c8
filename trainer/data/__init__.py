"""From documents to masked batches, in the background."""

from trainer.data.batch import Batch
from trainer.data.batch_prefetcher import BatchPrefetcher

__all__ = ["Batch", "BatchPrefetcher"]
