"""What `sahaj tokenizer train` does: it trains on the run's text, saves the tokenizer, and reports on held-out text."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from rich.console import Console

from corpus.documents import open_documents
from swarm.run_file import RunFile, load_run
from tokenizer.loading import check_replaceable, save_tokenizer
from tokenizer.report import TokenizerReport, measure, read_reference, table_of
from tokenizer.training import train_tokenizer

# Without validation sources every so many training documents are held out
HELD_OUT_EVERY = 50
# Documents that the report is made on, at most
HELD_OUT_DOCUMENTS = 2_000


def train_from_run(
    run_path: Path, *, output: Path | None = None, compare: str | None = None, console: Console | None = None
) -> list[TokenizerReport]:
    """Train the tokenizer of the run file at `run_path` and save it.

    Args:
        run_path: the run file.
        output: the folder to save it in; by default the run file's `tokenizer.path`.
        compare: another tokenizer to report beside it: a tokenizer.json, a folder, or a Hub repository.
        console: where progress and the report are printed; by default standard output.

    Returns:
        The report on the new tokenizer and, if one was given, on the other.

    Raises:
        RunFileError, DataError, TokenizerError, StorageError: one line each. Whatever ends it, Ctrl-C
            included, the folder is either as it was or holds the whole new tokenizer.
    """
    console = console or Console()
    run = load_run(run_path)
    folder = (output or run.resolve(run.tokenizer.path)).absolute()
    # checked before any text is read
    check_replaceable(folder)
    others = [] if compare is None else [(Path(compare).name, read_reference(compare))]
    held_out = validation_documents(run)
    training = open_documents(run, run.data.train, seed=0, repeat=False)
    texts: Iterable[str] = training if run.data.validation else without_held_out(training, held_out)
    tokenizer = train_tokenizer(run, texts, progress=console)
    save_tokenizer(tokenizer, folder)
    if training.skipped:
        console.print(f"Skipped {training.skipped:,} documents that could not be used.")
    here = Path.cwd()
    shown = folder.relative_to(here) if folder.is_relative_to(here) else folder
    console.print(f"Saved the tokenizer in {shown}", soft_wrap=True, markup=False)
    compared = [(run.name, tokenizer.backend_tokenizer), *others]
    reports = [measure(name, engine, held_out) for name, engine in compared]
    if held_out:
        console.print(table_of(reports))
    return reports


def validation_documents(run: RunFile) -> list[str]:
    """Held-out documents of the run's validation sources; none if it has no such sources."""
    if not run.data.validation:
        return []
    documents = open_documents(run, run.data.validation, seed=0, repeat=False, shuffle=False)
    return list(islice(documents, HELD_OUT_DOCUMENTS))


def without_held_out(documents: Iterable[str], held_out: list[str]) -> Iterator[str]:
    """The documents but every `HELD_OUT_EVERY`th, which goes to `held_out` while there is room for it."""
    for number, document in enumerate(documents, start=1):
        if number % HELD_OUT_EVERY == 0 and len(held_out) < HELD_OUT_DOCUMENTS:
            held_out.append(document)
        else:
            yield document
