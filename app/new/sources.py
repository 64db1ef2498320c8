"""Where a run's text is, as an organizer says it: a file, a folder, or a dataset on the Hub."""

import math
import os
from collections.abc import Iterable
from pathlib import Path

from corpus.documents import open_documents
from corpus.held_out import HELD_OUT, TRAINING
from corpus.local_files import is_supported
from swarm.errors import DataError, in_a_line
from swarm.files import lookup_errors
from swarm.run_file import DataSource, RunFile, parse_run
from swarm.secret_variables import hub_token
from tokenizer.loading import is_hub_name


def source_of(answer: str, text_column: str) -> DataSource:
    """A file or folder, or a dataset on the Hub as `owner/name`, `owner/name:config` or `owner/name:config:split`.

    Raises:
        DataError: it is none of them.
    """
    with lookup_errors(answer, DataError):
        path = Path(answer).expanduser()
        is_local = bool(answer) and path.exists()
    if is_local:
        return DataSource(path=str(path.absolute()), text_column=text_column)
    name, *rest = answer.split(":")
    if not is_hub_name(name) or is_supported(Path(name)) or len(rest) > 2:
        raise DataError(
            f"{answer}: no such file or folder, and no dataset on the Hub, as owner/name or owner/name:config"
        )
    config, split = (*rest, "", "")[:2]
    return DataSource(hub=name, config=config or None, split=split or "train", text_column=text_column)


def documents_of(source: DataSource) -> Iterable[str]:
    """All documents once, in the order in which they are stored."""
    return open_documents(run_with(source), [source], seed=0, repeat=False, shuffle=False)


def run_with(source: DataSource, language: str = "en", vocabulary: int = 32_000) -> RunFile:
    """A run file with this text, for the parts of the program that read one."""
    settings = {"language": language, "tokenizer": {"vocab_size": vocabulary}, "data": {"train": [source.model_dump()]}}
    return parse_run({"name": "run", **settings}, Path("run.yaml"))


def told_documents(source: DataSource) -> float:
    """What the Hub says about the number of documents of a dataset; infinite where it does not know."""
    if source.hub is None:
        return math.inf
    import datasets

    try:
        splits = datasets.load_dataset_builder(source.hub, source.config, token=hub_token()).info.splits
        return float(splits[source.split].num_examples or math.inf)
    except Exception:  # errors of the library share no base, and the run does not need the figure
        return math.inf


def held_out_file(source: DataSource) -> DataSource | None:
    """The file validation.jsonl beside a local file; None if there is none.

    Where `train.jsonl` is there, too, validation.jsonl was cut from the text before, or belongs to that file.
    """
    path = Path(str(source.path))
    found = path.with_name(HELD_OUT)
    is_cut = path.name != TRAINING and path.with_name(TRAINING).exists()
    is_there = path.is_file() and path != found and found.is_file() and not is_cut
    return source.model_copy(update={"path": str(found)}) if is_there else None


def held_out_split(source: DataSource) -> DataSource | None:
    """The validation or test split of a dataset on the Hub; None if it has neither.

    Raises:
        DataError: the Hub cannot be asked.
    """
    import datasets

    try:
        names = datasets.get_dataset_split_names(source.hub, source.config, token=hub_token())
    except Exception as error:  # as above
        raise DataError(f"{source.hub}: its splits are not known ({in_a_line(error)}); give --held-out") from None
    found = next((name for name in ("validation", "test") if name in names and name != source.split), None)
    return None if found is None else source.model_copy(update={"split": found})


def is_part_of(held_out: DataSource, training: DataSource) -> bool:
    """Whether text to measure on would be trained on, too."""
    if held_out.path is None or training.path is None:
        place = ("hub", "config", "split")
        return training.hub is not None and all(getattr(held_out, one) == getattr(training, one) for one in place)
    ours, theirs = Path(held_out.path).resolve(), Path(training.path).resolve()
    return ours.is_relative_to(theirs) or theirs.is_relative_to(ours)


def as_entries(source: DataSource, folder: Path) -> dict[str, str]:
    """What the run file in `folder` says of a source, without what it need not say."""
    given: dict[str, str] = source.model_dump(exclude_defaults=True)
    if source.path is not None:
        path = Path(source.path)
        given["path"] = os.path.relpath(path, folder) if path.is_relative_to(folder) else str(path)
    return given
