"""The command line. Each command imports what it needs when it runs, so that `sahaj --help` is quick."""

import atexit
import contextlib
import gc
import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.commands import doctor, finetuning, hosting, joining, leaving, me, new, notebook, release, service
from app.join.peer_folder import cache_folder
from app.options import (
    AnnounceOption,
    LinkArgument,
    ListenOption,
    LogLevelOption,
    RunArgument,
    VerboseOption,
)
from app.startup import INTERRUPTED, loading_libraries, say_stopped, set_verbosity, start_peer
from swarm.errors import SahajError
from swarm.logging import logs
from swarm.secret_variables import hide_secrets


class Commands(TyperGroup):
    """All commands; where a run's link is missing they say where links come from, in the volunteer's language."""

    def invoke(self, ctx: Any) -> Any:
        """See upstream."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as problem:
            if problem.param is None or problem.param.name != "url":  # a link is any text, so it can only be missing
                raise
            from app.join.problems import JoinProblem, ProblemKind
            from swarm.language import _

            told = _("the run's link is missing; type `{command} {example}` with the link that the organizer shares")
            typed = problem.ctx.command_path if problem.ctx else "sahaj"
            told = told.format(command=typed, example="https://run.example.org")
            raise JoinProblem(ProblemKind.BAD_URL, told) from None


app = typer.Typer(
    name="sahaj",
    cls=Commands,
    help="Pretrain a language model together.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(new.new)
tokenizers = typer.Typer(help="Make the run's tokenizer.", no_args_is_help=True)
app.add_typer(tokenizers, name="tokenizer")


@app.command()
def demo(
    corpus: Annotated[
        Path | None,
        typer.Option(help="text, JSONL or Parquet, a file or a folder; by default documentation of Python"),
    ] = None,
    run: Annotated[Path | None, typer.Option(help="run file to start from; by default runs/demo.yaml")] = None,
    trainers: Annotated[int, typer.Option(min=2, max=7, help="trainers at the start, one of them in client mode")] = 3,
    experts: Annotated[
        int | None,
        typer.Option(min=2, max=64, help="experts on two hosts beside the trainers; one host is killed"),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=6, help="global steps; by default the run file's")] = None,
    out: Annotated[Path, typer.Option(help="folder for everything the demo makes")] = Path("out/demo"),
    dashboard: Annotated[
        bool, typer.Option(" /--no-dashboard", help="serve no pages to watch it in a browser", show_default=False)
    ] = True,
) -> None:
    """Watch a whole collaboration on this machine: peers join, leave, and train a model."""
    set_verbosity(verbose=False)
    from app.demo.demo import DemoOptions, run_demo

    options = DemoOptions(corpus, run, trainers, steps, out, dashboard=dashboard, experts=experts)
    raise typer.Exit(run_demo(options))


@tokenizers.command("train")
def train_tokenizer(
    run: RunArgument,
    out: Annotated[Path | None, typer.Option(help="folder to save it in; by default the run file's")] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="another tokenizer to report beside it: a folder, a file or a Hub repository"),
    ] = None,
) -> None:
    """Train a Unigram tokenizer on the run's text and report how well it does on held-out text."""
    set_verbosity(verbose=False)
    from tokenizer.command import train_from_run

    train_from_run(run, output=out, compare=compare)


@app.command()
def coordinator(
    run: RunArgument,
    state: Annotated[
        Path | None, typer.Option(help="folder of identity, ledger and checkpoints; by default NAME-state")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="only resume: an error if there is nothing to resume from")
    ] = False,
    from_hub: Annotated[
        bool, typer.Option("--from-hub", help="resume from the newest release, if it is newer than the local state")
    ] = False,
    initial_peers: Annotated[
        list[str],
        typer.Option(metavar="ADDRESS", help="address of a peer of the run, to find the swarm by; may be repeated"),
    ] = [],  # noqa: B006  (Typer reads the default; it is never changed)
    listen: ListenOption = [],  # noqa: B006
    announce: AnnounceOption = [],  # noqa: B006
    verbose: VerboseOption = False,
    log_level: LogLevelOption = logs.Level.INFO,
) -> None:
    """Open a run or resume it, and keep running: the first peer, which keeps ledger and checkpoints."""
    start_peer(verbose=verbose, log_level=log_level)
    from swarm.run_file import load_run

    loaded = load_run(run)  # reports a mistake in it before the imports, which take seconds
    with loading_libraries():
        from coordinator.main import CoordinatorOptions, coordinate

    options = CoordinatorOptions(
        state_folder=state or Path(f"{loaded.name}-state"),
        run_file=run,
        initial_peers=tuple(initial_peers),
        listen=tuple(listen),
        announce=tuple(announce),
        resume=resume,
        from_hub=from_hub,
    )
    coordinate(loaded, options, _say)


app.command()(joining.join)
app.command()(hosting.host_experts)
app.add_typer(service.service, name="service")
app.command()(me.me)
app.command()(me.team)
app.command()(leaving.leave)
app.command()(doctor.doctor)


@app.command()
def admin(
    url: LinkArgument,
    action: Annotated[
        str,
        typer.Argument(
            help="allow, disallow, ban, unban, announce, pause, resume, restore (an older state of the model), stop, "
            "remove-team, rename-team, flags (lists peers that look odd), or evidence (signed proof that a peer "
            "cheated); see docs/organizing.md",
            show_default=False,
        ),
    ],
    argument: Annotated[
        str | None,
        typer.Argument(
            help="a name as the leaderboard shows it, in quotes ('~bob'), a peer id (ban, unban), a text to announce, "
            "the global step of a checkpoint (restore), or a team's name",
            show_default=False,
        ),
    ] = None,
    new: Annotated[str | None, typer.Argument(help="the team's new name (rename-team)", show_default=False)] = None,
    key: Annotated[
        Path, typer.Option(help="the key file NAME-state/admin.key; by default ./admin.key", show_default=False)
    ] = Path("admin.key"),
    insecure: Annotated[bool, typer.Option("--insecure", help="send the key without encryption")] = False,
) -> None:
    """Send an organizer's command to a running coordinator."""
    set_verbosity(verbose=False)
    from app.organizing.admin import admin as send_command

    typer.echo(send_command(url, key, action, argument, new, insecure=insecure))


@app.command()
def dashboard(
    url: LinkArgument,
    port: Annotated[int, typer.Option(min=0, max=65535, help="where browsers find it; 0: any that is free")] = 8501,
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 for others to see it")] = "127.0.0.1",
    notebook: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="a notebook on GitHub or the Hub for Colab and Kaggle to open", show_default=False
        ),
    ] = None,
) -> None:
    """Serve a run's public pages: how the model learns, and who contributes."""
    set_verbosity(verbose=False)
    from app.organizing.dashboard import run_dashboard

    run_dashboard(url, host, port, notebook, _say)


@app.command()
def info(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="a checkpoint-N folder", show_default=False)],
) -> None:
    """Show what a checkpoint is and how to load it."""
    set_verbosity(verbose=False)
    from rich.console import Console

    from app.organizing.info import describe, render

    Console().print(render(describe(checkpoint)))


@app.command()
def plan(
    table: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="a table of the volunteers that you expect, such as runs/volunteers.csv",
            show_default=False,
        ),
    ],
    run: Annotated[Path, typer.Option(metavar="RUN", help="the run file")] = Path("run.yaml"),
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="write its figures as JSON")] = None,
) -> None:
    """Predict how fast a run will be with the volunteers of a table, and what would help most."""
    set_verbosity(verbose=False)
    from rich.console import Console

    from app.plan.forecast_report import plan as predict

    console = Console()
    with console.status("planning"):
        report = predict(table, run, json_file=json_file)
    console.print(report, highlight=False)


app.command()(notebook.notebook)
app.command()(finetuning.finetune)
app.command()(finetuning.evaluate)
app.command()(release.release)


def main() -> None:
    """Run a command; a foreseen problem ends in one line and an exit status, not in a traceback."""
    hide_secrets()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # no name from outside can break the output
    atexit.register(gc.freeze)  # else Python takes seconds at the end to look through the modules of torch
    logs.log_uncaught(_unknown_log())
    try:
        typer.main.get_command(app)()  # not `app()`: it would replace log_uncaught's excepthook with Typer's
    except SahajError as error:
        logs.console_line(f"ended: {error}")
        typer.echo(f"sahaj: {error}", err=True)
        sys.exit(error.exit_status)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # Typer has made it of a KeyboardInterrupt
            say_stopped()
        raise
    except Exception as error:  # a bug: threads of hivemind would keep the process from ending
        typer.echo(f"sahaj: {logs.unexpected(error, 'the program has failed', _unknown_log())}", err=True)
        sys.stderr.flush()
        os._exit(1)


def _say(line: str) -> None:
    """Print a line at once, also into a pipe. A terminal that is gone or a full disk does not end the command."""
    logs.console_line(line)
    with contextlib.suppress(OSError):
        typer.echo(line)
        sys.stdout.flush()


def _unknown_log() -> Path:
    """Folder for the log of failures before a command has a log of its own."""
    return cache_folder() / logs.FOLDER


if __name__ == "__main__":
    main()
