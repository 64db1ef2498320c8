"""What `sahaj new` does with its answers: it chooses the run, and writes run file, volunteers and held-out text."""

import shlex
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from app.new.machines import at_model, speed_of, to_csv
from app.new.sizing import Choice, SizingError, Text, amount, choose, run_of
from app.new.sources import as_entries
from app.new.text_survey import Seen, count_tokens, look
from app.new.writing import Section, Setting, content, to_yaml
from app.plan.table import Volunteers
from corpus.held_out import EVERY, HELD_OUT, TEXT_FILES, TRAINING
from swarm.errors import in_a_line
from swarm.files import PARTIAL, storage_errors, write_file
from swarm.run_file import DataSource, RunFile, parse_run

FILES = RUN, TABLE = "run.yaml", "volunteers.csv"
TITLE_WIDTH = 110  # characters of a line


@dataclass(frozen=True)
class Answers:
    """What the organizer said."""

    folder: Path
    name: str
    language: str
    text: DataSource
    held_out: DataSource | None  # None: a part of the text, which is local
    volunteers: Sequence[Volunteers]
    measured: RunFile  # with whose model the volunteers' samples per second were measured
    days: float
    users: Sequence[str] = ()
    organizations: Sequence[str] = ()  # without them and users, everybody may join


def make(answers: Answers, console: Console) -> None:
    """Read the text, choose the run, write its files, and say what comes next; what is there stays if no run fits.

    Raises:
        SizingError: no run fits.
        DataError, TokenizerError, StorageError: the text cannot be read, or a file not be written.
    """
    folder = answers.folder
    with storage_errors(folder / RUN):
        folder.mkdir(parents=True, exist_ok=True)
        beside = tempfile.TemporaryDirectory(prefix=f".text{PARTIAL}", dir=folder)
    with beside as parts:
        seen = look(answers.text, console, cut_into=Path(parts) if answers.held_out is None else None)
        text = count_tokens(seen, answers.language)
        with console.status("planning"):
            choice = choose(text, speed_of(answers.volunteers, answers.measured), answers.days)
        settings = run_settings(answers, choice)
        run = parse_run(content(settings), folder / RUN)
        rows = at_model(answers.volunteers, answers.measured, run_of(choice.course))
        for name in TEXT_FILES if answers.held_out is None else ():
            with storage_errors(folder / name):
                Path(parts, name).replace(folder / name)
    write_file(folder / TABLE, to_csv(rows, run.name))
    write_file(folder / RUN, to_yaml(_title(answers), settings))
    for line in _summary(answers, seen, text, choice):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def run_settings(answers: Answers, choice: Choice) -> dict[str, Setting | Section]:
    """The whole run file with its reasons."""
    chosen = choice.settings()
    data = Section(chosen["data"].reason, {**_sources(answers), **chosen["data"].entries})
    return {
        "name": Setting(answers.name, "the name of the run on pages and in files"),
        "description": Setting(f"A language model for {answers.language}.", "on pages and in the model card: say more"),
        "language": Setting(answers.language, "says where sentences end, and what the tokenizer makes uniform"),
        **{name: data if name == "data" else section for name, section in chosen.items()},
        "access": _access(answers),
    }


def check_apart(given: Path, folder: Path, names: Sequence[str]) -> None:
    """Refuse a text or table that lies where files of these names are written.

    Raises:
        SizingError: it does.
    """
    if any((folder / name).resolve().is_relative_to(given.resolve()) for name in names):
        raise SizingError(f"{given}: {' and '.join(names)} would be written there; name another folder for the run")


def _sources(answers: Answers) -> dict[str, Section]:
    folder = answers.folder.absolute()
    if answers.held_out is None:
        training, held_out = {"path": TRAINING}, {"path": HELD_OUT}
        why = f"one document in {EVERY} of the text, kept from training"
    else:
        training, held_out = as_entries(answers.text, folder), as_entries(answers.held_out, folder)
        why = "what losses are measured on"
    local = "only this machine can read it: put it on the Hub and write `hub: owner/name`"
    reasons = {"hub": "volunteers stream it from there", "path": local}

    def section(reason: str, entries: dict[str, str], reasons: dict[str, str]) -> Section:
        settings = {key: Setting(value, reasons.get(key, "of the dataset")) for key, value in entries.items()}
        return Section(reason, settings, in_list=True)

    return {
        "train": section("you may add sources, each with a weight", training, reasons),
        "validation": section(why, held_out, {"path": "the coordinator alone reads it", "hub": "as above"}),
    }


def _access(answers: Answers) -> Section:
    if not (answers.users or answers.organizations):
        entries = {"open": Setting(True, "everybody, under any name: a real run lists users or organizations")}
    else:
        entries = {
            key: Setting(list(names), f"{who} of the Hugging Face Hub, who show a token")
            for key, names, who in (
                ("users", answers.users, "users"),
                ("organizations", answers.organizations, "members of organizations"),
            )
            if names
        }
    return Section("who may join; `url` here is the address that others use (docs/organizing.md)", entries)


def _title(answers: Answers) -> str:
    machines = ", ".join(
        f"{row.count:,} {in_a_line(row.device)}" for row in answers.volunteers if row.samples_per_second
    )
    return textwrap.fill(
        f"Made by `sahaj new` for {machines}, days: {answers.days:g}. "
        f"Speeds are estimates: correct {TABLE}, ask `sahaj plan {TABLE}`, and change here what you know better.",
        TITLE_WIDTH,
    )


def _summary(answers: Answers, seen: Seen, text: Text, choice: Choice) -> list[str]:
    course, folder = choice.course, answers.folder
    size = course.size
    what = "The text" if seen.all_documents == seen.documents else "The beginning of the text, which was read,"
    lines = [
        f"{what} has {amount(seen.characters)} characters in {seen.documents:,} documents, and "
        f"{text.tokens_per_word:.2f} tokens a word: {_tokens(text.tokens)}.",
        f"The model has hidden size {size.width}, {size.layers} layers and a vocabulary of {course.vocabulary:,} "
        "tokens. "
        f"{course.samples:,} samples in {course.steps:,} global steps of {course.batch:,} take an estimated "
        f"{course.duration}.",
        f"Why not a larger model: {choice.why_size()}.",
        f"Wrote {folder / RUN}, each line with its reason, and {folder / TABLE}, the volunteers with this model.",
        "",
        "Next:",
        f"  cd {shlex.quote(str(folder))}",
        f"  sahaj plan {TABLE}        # what would help most",
        f"  sahaj tokenizer train {RUN}",
        f"  sahaj coordinator {RUN}       # opens the run, and prints the link to share",
    ]
    if seen.source.hub is None:
        upload = seen.source.name if answers.held_out else TRAINING
        lines += [
            "Others cannot read this disk: before you invite them, put the text on the Hub and write `hub: owner/name` "
            f"in place of its path in {RUN}:",
            f"  hf upload owner/name {shlex.quote(upload)} --repo-type dataset",
        ]
    return lines


def _tokens(tokens: float) -> str:
    return f"{amount(tokens)} tokens" if tokens < float("inf") else "more tokens than the run can read"
