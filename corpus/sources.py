"""The data sources of a run file: local files and Hub datasets, read in passes that resume where they failed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from corpus.local_files import Unusable, is_binary, is_supported, read_file, usable
from swarm.errors import DataError, in_a_line
from swarm.run_file import DataSource, RunFile
from swarm.secret_variables import hub_token

# A Hub dataset of more files than this is shuffled by file; of fewer, by Parquet row group, because
# with one or two files all peers would begin with the same documents. Finding the row groups costs a
# request or two for each file.
FILES_TO_SPLIT = 16


@dataclass(frozen=True)
class Failed:
    """The source cannot be read now; the next step of the pass retries at the same place."""

    reason: str


Item = str | Unusable | Failed
Reader = Callable[[Path, str, random.Random | None], Iterator[str | Unusable]]


class Source(Protocol):
    """A data source whose documents can be read any number of times."""

    name: str
    is_remote: bool

    def one_pass(self, order: random.Random | None) -> Iterator[Item]:
        """All documents once, in the order of `order` or, without it, as they are stored.

        Raises:
            DataError: the source is wrong, and trying again cannot help.
        """
        ...


def open_source(run: RunFile, source: DataSource) -> Source:
    """The source; a local one is checked.

    Raises:
        DataError: the path is missing, unreadable, empty, or a binary file.
    """
    if source.hub is not None:
        return HubDataset(source)
    return LocalFiles(run.resolve(str(source.path)), source)


class LocalFiles:
    """A JSONL, Parquet or text file, or all of them below a folder."""

    is_remote = False

    def __init__(self, path: Path, source: DataSource, read: Reader = read_file) -> None:
        self.name = source.name
        self._text_column = source.text_column
        self._read_file = read
        self._files = find_files(path)
        if len(self._files) == 1 and _is_binary(self._files[0]):
            raise DataError(f"{self._files[0]}: a binary file, not UTF-8 text; convert it to UTF-8 text or JSON lines")

    def one_pass(self, order: random.Random | None) -> Iterator[Item]:
        """All documents once; files, and the row groups of Parquet files, in the order of `order`."""
        files = list(self._files)
        if order is not None:
            order.shuffle(files)
        for file in files:
            yield from self._read(file, None if order is None else order.random())

    def _read(self, file: Path, order: float | None) -> Iterator[Item]:
        done = 0
        while True:
            try:
                # a binary file in a folder would otherwise come as thousands of unusable documents
                if len(self._files) > 1 and is_binary(file):
                    yield Unusable(f"{file.name} is a binary file, not UTF-8 text")
                    return
                documents = self._read_file(file, self._text_column, None if order is None else random.Random(order))
                for number, item in enumerate(documents):
                    if number < done:
                        continue
                    done += 1
                    yield item
                return
            except OSError as error:
                yield Failed(f"{file}: {error.strerror or error}")


def find_files(path: Path) -> list[Path]:
    """The file itself, or the supported files below a folder, sorted by name, hidden ones left out.

    Raises:
        DataError: there is nothing to read.
    """
    try:
        if not path.exists():
            raise DataError(f"{path}: no such file or folder; correct the path of this data source")
        if not path.is_dir():
            if path.stat().st_size == 0:
                raise DataError(f"{path}: an empty file; give a file that holds text")
            return [path]
        files = [file for file in sorted(path.rglob("*")) if file.is_file() and is_supported(file)]
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    files = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not files:
        raise DataError(f"{path}: no corpus files in this folder; put .jsonl, .json, .parquet or .txt files there")
    return files


def _is_binary(path: Path) -> bool:
    try:
        return is_binary(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


class HubDataset:
    """A dataset on the Hub, streamed."""

    is_remote = True

    def __init__(self, source: DataSource) -> None:
        self.name = source.name
        self._source = source

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
        while True:
            try:
                for row in dataset:
                    yield self._document(row)
                return
            except Exception as error:
                # the state is that of the last row yielded
                dataset.load_state_dict(dataset.state_dict())
                yield Failed(in_a_line(error))

    def _document(self, row: dict[str, Any]) -> Item:
        return usable(row.get(self._source.text_column))

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
            raise DataError(f"{source.hub}: {in_a_line(error)}") from None
        columns = dataset.column_names
        if columns is not None and source.text_column not in columns:
            raise DataError(f"{source.hub}: no column {source.text_column!r} but {', '.join(columns)}; set text_column")
        if order is not None:
            if dataset.num_shards <= FILES_TO_SPLIT:
                dataset = dataset.reshard()
            dataset = dataset.shuffle(seed=order.randrange(2**32), buffer_size=1, max_buffer_input_shards=1)
        return dataset
