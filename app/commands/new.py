"""The questions of `sahaj new`. Each has a flag; without it, it is asked at a terminal, or its default is taken."""

import re
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from app.startup import set_verbosity
from swarm.errors import SahajError

if TYPE_CHECKING:
    from swarm.run_file import DataSource

Answer = TypeVar("Answer")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
LANGUAGE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]+)*")
LONGEST_DAYS = 3650.0
BEGINNING = 100  # documents of the text that its language is guessed from
EVERYBODY = "everybody"


class AnswerError(SahajError):
    """An answer that cannot be one."""

    exit_status = 2


def new(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="where the run's files are written")] = Path(),
    text: Annotated[
        str | None, typer.Option(help="a file, a folder, or a dataset on the Hub (owner/name:config)")
    ] = None,
    text_column: Annotated[str, typer.Option(help="the column or key that holds the text")] = "text",
    held_out: Annotated[
        str | None,
        typer.Option(
            help="text to measure losses on; by default validation.jsonl beside the text, a split, or a part of it"
        ),
    ] = None,
    language: Annotated[str | None, typer.Option(help="code of the text's language, such as bn")] = None,
    volunteers: Annotated[
        str | None, typer.Option(help="machines, such as '12 t4, 15 laptop', or a table such as runs/volunteers.csv")
    ] = None,
    measured_with: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="run file of the model that the table's speeds are for; by default runs/bengali.yaml"
        ),
    ] = None,
    days: Annotated[str | None, typer.Option(help="how many days the run may take")] = None,
    name: Annotated[str | None, typer.Option(help="name of the run; by default the folder's")] = None,
    organizations: Annotated[
        list[str],
        typer.Option("--organization", help="organization on the Hub whose members may join; may be repeated"),
    ] = [],  # noqa: B006  (Typer reads the default; it is never changed)
    users: Annotated[list[str], typer.Option("--user", help="user of the Hub who may join; may be repeated")] = [],  # noqa: B006
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace files that are there")] = False,
) -> None:
    """Write a run file that fits your text, the volunteers who will come, and the days that they have."""
    set_verbosity(verbose=False)
    from rich.console import Console

    from app.demo.corpus import guess_language
    from app.new.machines import KINDS, REFERENCE, read_volunteers
    from app.new.new import FILES, RUN, Answers, check_apart, make
    from app.new.sources import documents_of, source_of
    from app.new.text_survey import check_enough
    from app.plan.table import Volunteers
    from corpus.held_out import TEXT_FILES
    from swarm.files import check_writable
    from swarm.run_file import load_run

    console = Console()
    check_writable(folder / RUN)
    _may_replace(folder, FILES, overwrite=overwrite)
    measured = load_run(measured_with or REFERENCE)

    def beginning_of(answer: str) -> tuple["DataSource", list[str]]:
        source = source_of(answer, text_column)
        documents = list(islice(documents_of(source), BEGINNING))
        if len(documents) < BEGINNING:  # this was the whole text
            check_enough(source, len(documents), sum(map(len, documents)))
        return source, documents

    def rows_of(answer: str) -> tuple[Volunteers, ...]:
        check_apart(Path(answer), folder, FILES)
        return read_volunteers(answer, measured)

    question = "Text (a file, a folder, or owner/name:config on the Hub)"
    source, beginning = _ask("text", question, text, None, beginning_of)
    kept = _held_out(source, held_out)
    if kept is None:
        check_apart(Path(str(source.path)), folder, TEXT_FILES)
        _may_replace(folder, TEXT_FILES, overwrite=overwrite)
    code = _ask("language", "Language", language, guess_language("".join(text[:1000] for text in beginning)), _language)
    who = f"Who will come (such as 12 t4, 15 laptop; kinds are {', '.join(KINDS)}; or a table's file)"
    rows = _ask("volunteers", who, volunteers, "10 laptop", rows_of)
    number = _ask("days", "For how many days", days, "10", _days)
    called = _ask("name", "Name of the run", name, _as_name(folder.absolute().name) or code, _name)
    if not (organizations or users):
        asked = _ask("organization", "Organization on the Hub whose members may join", None, EVERYBODY, str.strip)
        organizations = [] if asked == EVERYBODY else [asked]
    make(Answers(folder, called, code, source, kept, rows, measured, number, users, organizations), console)


def _ask(flag: str, question: str, given: str | None, default: str | None, check: Callable[[str], Answer]) -> Answer:
    """What `check` makes of the flag's value or, without one, of what is typed until it is right, or of the default."""
    if given is None and _has_terminal():
        while True:
            try:
                return check(typer.prompt(question, default=default))
            except SahajError as error:
                typer.echo(str(error))
    answer = default if given is None else given
    if answer is None:
        raise AnswerError(f"--{flag} is missing, and there is no terminal to ask at")
    return check(answer)


def _held_out(source: "DataSource", given: str | None) -> "DataSource | None":
    """Text to measure on; None: a part of the text, which is local."""
    from app.new.sources import documents_of, held_out_file, held_out_split, is_part_of, source_of

    def checked(found: "DataSource", called: str) -> "DataSource":
        if next(iter(documents_of(found)), None) is None:
            raise AnswerError(f"{called}: no document in it; name other held-out text")
        if is_part_of(found, source):
            raise AnswerError(
                f"{called}: is in the text to train on ({source.name}), so losses would say nothing; "
                "put the held-out text elsewhere, or leave out --held-out"
            )
        return found

    def read(answer: str) -> "DataSource":
        return checked(source_of(answer, source.text_column), answer)

    if given is None:
        found = held_out_file(source) if source.hub is None else held_out_split(source)
        try:
            if found is not None:
                return checked(found, found.name)
        except SahajError as error:  # it was found here, and its user did not ask for it
            typer.echo(f"{error}; it is left out", err=True)
        if source.hub is None:
            return None
    return _ask("held-out", f"Held-out text ({source.name} has no split for it)", given, None, read)


def _may_replace(folder: Path, names: tuple[str, ...], *, overwrite: bool) -> None:
    if overwrite or not (there := [str(folder / name) for name in names if (folder / name).exists()]):
        return
    if not (_has_terminal() and typer.confirm(f"{' and '.join(there)}: replace?")):
        raise AnswerError(f"{' and '.join(there)}: already there; name another folder, or replace with --overwrite")


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _language(answer: str) -> str:
    if not LANGUAGE.fullmatch(answer):
        raise AnswerError(f"{answer}: not the code of a language, such as bn or pt-BR")
    return answer


def _days(answer: str) -> float:
    try:
        days = float(answer)
    except ValueError:
        days = 0.0
    if not 0.0 < days <= LONGEST_DAYS:
        raise AnswerError(f"{answer}: days must be a number above 0 and at most {LONGEST_DAYS:g}")
    return days


def _name(answer: str) -> str:
    if not NAME.fullmatch(answer):
        raise AnswerError(f"{answer}: a run's name has lower case letters, digits and dashes, 63 at most")
    return answer


def _as_name(text: str) -> str:
    """A text as a run's name, as far as it can be one."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].rstrip("-")
