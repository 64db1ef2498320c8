"""Datasets on the Hub, streamed in passes that resume where they failed."""

import random
from collections.abc import Iterator
from typing import Any

from corpus.source import Failed, Item, Unusable, usable
from swarm.errors import DataError, in_a_line
from swarm.run_file import DataSource
from swarm.secret_variables import hub_token

# A Hub dataset of more files than this is shuffled by file; of fewer, by Parquet row group, because
# with one or two files all peers would begin with the same documents. Finding the row groups costs a
# request or two for each file.
FILES_TO_SPLIT = 16
TRIES = 4  # at the same row, before a file is taken for damaged


class HubDataset:
    """A dataset on the Hub, streamed."""

    is_remote = True

    def __init__(self, source: DataSource) -> None:
        self.name = source.name
        self._source = source
        self._has_loaded = False  # what it names is there: errors of later passes may heal

    def one_pass(self, order: random.Random | None) -> Iterator[Item]:
        """All documents once; files or, if they are few, their row groups in the order of `order`."""
        dataset: Any = None
        while dataset is None:
            try:
                dataset = self._load(order)
            except DataError:
                raise
            except Exception as error:
                # errors of httpx, aiohttp, fsspec and pyarrow share no base
                yield Failed(in_a_line(error))
        failures = 0  # without a row in between
        while True:
            try:
                for row in dataset:
                    failures = 0
                    yield usable(row.get(self._source.text_column))
                return
            except Exception as error:
                failures += 1
                if order is not None and failures >= TRIES and _is_damage(error):
                    # the next pass reads the files in another order, and so those behind this one
                    yield Unusable(f"a damaged file; this pass ends there ({in_a_line(error)})")
                    return
                # the state is that of the last row yielded
                dataset.load_state_dict(dataset.state_dict())
                yield Failed(in_a_line(error))

    def _load(self, order: random.Random | None) -> Any:
        import datasets

        # the library would retry 20 times, 5 to 60 s apart, in silence; failures are counted here
        datasets.config.STREAMING_READ_MAX_RETRIES = 1
        datasets.config.STREAMING_OPEN_MAX_RETRIES = 1
        source = self._source
        try:
            dataset = datasets.load_dataset(
                source.hub, source.config, split=source.split, streaming=True, token=hub_token()
            )
        except datasets.exceptions.DatasetNotFoundError:
            raise DataError(
                f"{source.hub}: no such dataset on the Hub, or it needs `hf auth login`; check its name"
            ) from None
        except (datasets.exceptions.DataFilesNotFoundError, ValueError) as error:
            if self._has_loaded:  # among the ValueErrors are those of answers that are no JSON
                raise
            raise DataError(f"{source.hub}: {in_a_line(error)}") from None
        columns = dataset.column_names
        if columns is not None and source.text_column not in columns:
            raise DataError(f"{source.hub}: no column {source.text_column!r} but {', '.join(columns)}; set text_column")
        self._has_loaded = True
        if order is not None:
            if dataset.num_shards <= FILES_TO_SPLIT:
                dataset = dataset.reshard()
            dataset = dataset.shuffle(seed=order.randrange(2**32), buffer_size=1, max_buffer_input_shards=1)
        return dataset


def _is_damage(error: Exception) -> bool:
    """Whether the data are at fault, and not the connection."""
    import pyarrow

    # pyarrow raises a plain OSError without a number for a broken page
    return isinstance(error, (ValueError, pyarrow.ArrowException)) or (type(error) is OSError and error.errno is None)
