"""`sahaj demo`: a whole collaboration of real peers on one machine, reported as it happens."""

import contextlib
import fcntl
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from app.demo.corpus import prepare_corpus
from app.demo.experts import described, experts_section, summarize_experts
from app.demo.peers import Peer, kill_all, start_peer, wait_for_address
from app.demo.probes import choose_probes, render
from app.demo.story import Story
from app.demo.summary import SUMMARY, Summary, problems, save_summary, summarize
from app.organizing.dashboard import free_port, is_installed
from coordinator.ledger.answers import Fills, compared
from coordinator.ledger.ledger import open_ledger
from coordinator.state_folder import URL
from swarm.errors import RunFileError, SahajError
from swarm.files import lookup_errors, storage_errors, write_file
from swarm.logging import logs
from swarm.run_file import RunFile, dump_run, load_run, parse_run
from swarm.run_file.schema import MOST_PROBES
from swarm.secret_variables import hidden_secrets
from tokenizer.command import train_from_run

DEFAULT_RUN = Path(__file__).parents[2] / "runs" / "demo.yaml"
MARKER = ".sahaj-demo"  # in the demo's folder: what is there may be replaced
MADE = ("corpus", "tokenizer", "coordinator", "peers", "logs")  # folders of an earlier demo, replaced by this one
LEAST_STEPS = 6  # global steps in which everything can happen, as --steps has it


class DemoFolderError(SahajError):
    """The folder for the demo holds something else."""

    exit_status = 2


@dataclass(frozen=True)
class DemoOptions:
    """What the command line offers."""

    corpus: Path | None
    run: Path | None
    trainers: int
    steps: int | None
    out: Path
    dashboard: bool = True
    experts: int | None = None


def run_demo(options: DemoOptions, console: Console | None = None) -> int:
    """Run the demo; returns the exit status: 0 only if everything happened as it should.

    Args:
        console: where it is reported; by default standard output.

    Raises:
        SahajError: bad input, or a peer that ended early.
    """
    console, out = console or Console(), options.out
    for number in (signal.SIGTERM, signal.SIGHUP):  # the peers are ended in any case
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    template = load_run(options.run or DEFAULT_RUN)
    if options.steps is None and (steps := template.optimizer.total_steps) < LEAST_STEPS:
        raise RunFileError(f"{options.run}: optimizer.total_steps is {steps}; a demo needs {LEAST_STEPS}: give --steps")
    with _claimed(out):
        run, answers = prepare_run(template, options, console)
        logs.write_to(out / "logs", "demo")
        try:
            coordinator, summary, fills = _play(run, options, console, began)
        finally:
            kill_all()
        return _close(run, coordinator, summary, fills, answers, out, console)


def _play(run: RunFile, options: DemoOptions, console: Console, began: float) -> tuple[Peer, Summary, list[Fills]]:
    """Start the peers, and see them do it all. `began`: the demo, in monotonic seconds."""
    out = options.out
    console.rule("the run")
    state = out / "coordinator"
    coordinator = start_peer(
        "coordinator",
        ["coordinator", str(out / "run.yaml"), "--state", str(state)],
        out / "logs" / "coordinator.log",
        environment=hidden_secrets(),  # for a release or wandb, if the run file asks for that
    )
    url = wait_for_address(coordinator, state / URL)
    console.print(f"The coordinator is up: {url}", highlight=False, soft_wrap=True)
    if options.dashboard:
        _serve_dashboard(url, out, console)
    ledger = open_ledger(run.coordinator.ledger, state)
    story = Story(run, out, coordinator, ledger, url, console)
    training = time.monotonic()
    if options.experts:
        story.begin_hosting(options.experts)
    story.play(options.trainers)
    trained = time.monotonic() - training
    if coordinator.stop(patience=15.0) != 0:
        coordinator.fate = f"ended with an error: {coordinator.last_words()}"
    summary = summarize(story.trainers, ledger, out, seconds=time.monotonic() - began, training=trained)
    if options.experts:
        summary = replace(summary, experts=summarize_experts(options.experts, story.trainers, story.hosts, ledger))
    fills = ledger.history.fills(2)
    ledger.close()
    return coordinator, summary, fills


def _serve_dashboard(url: str, out: Path, console: Console) -> None:
    """Start the process that serves the pages; it ends with the demo, which does not wait for it."""
    if not is_installed():
        console.print("To watch in a browser: pip install streamlit altair", style="dim", highlight=False)
        return
    port = free_port()
    start_peer("dashboard", ["dashboard", url, "--port", str(port)], out / "logs" / "dashboard.log")
    console.print(f"Watch it in a browser: http://127.0.0.1:{port}", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def _claimed(out: Path) -> Iterator[None]:
    """Have the folder for this demo alone.

    Raises:
        SahajError: it holds something else, another demo runs there, or it cannot be written.
    """
    marker = out / MARKER
    with lookup_errors(f"--out {out}", DemoFolderError):
        if out.exists() and not marker.exists() and any(out.iterdir()):
            raise DemoFolderError(f"--out {out}: holds something other than an earlier demo; choose a new folder")
    with storage_errors(marker):
        out.mkdir(parents=True, exist_ok=True)
        held = marker.open("a")
    with held:
        with storage_errors(marker):  # as of a network drive without locks
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DemoFolderError(
                    f"--out {out}: another demo runs there; stop it, or choose another folder"
                ) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if [one.name for one in out.iterdir()] == [MARKER]:  # as where the corpus cannot be used
                    marker.unlink()


def prepare_run(template: RunFile, options: DemoOptions, console: Console) -> tuple[RunFile, dict[str, str]]:
    """Corpus, run file and tokenizer in the demo's folder; returns the run, and its own probes with their answers.

    Raises:
        SahajError: the corpus cannot be used.
    """
    out = options.out
    console.rule("the text")
    with tempfile.TemporaryDirectory(prefix="sahaj-demo-") as prepared:
        # an earlier demo is removed only once this one's text is known to be usable
        language = prepare_corpus(template, options.corpus, Path(prepared))
        content = run_content(template, options, language)
        run = parse_run(content, out / "run.yaml")
        for made in MADE:
            shutil.rmtree(out / made, ignore_errors=True)
        (out / SUMMARY).unlink(missing_ok=True)
        shutil.copytree(prepared, out / "corpus")
    write_file(out / "run.yaml", dump_run(run))
    train_from_run(out / "run.yaml", console=console)
    answers = choose_probes(run, out / "corpus")
    content["coordinator"]["probes"] = [*run.coordinator.probes, *answers][-MOST_PROBES:]
    run = parse_run(content, out / "run.yaml")
    write_file(out / "run.yaml", dump_run(run))
    return run, answers


def run_content(template: RunFile, options: DemoOptions, language: str) -> dict[str, Any]:
    """Of the demo's run file."""
    content = template.model_dump()
    content["language"] = language
    if language != template.language:
        content["coordinator"]["probes"] = []  # they are in the template's language
    content["tokenizer"]["path"] = "tokenizer"
    content["data"]["train"] = [{"path": "corpus/train.jsonl"}]
    content["data"]["validation"] = [{"path": "corpus/validation.jsonl"}]
    content["access"] = {"open": True, "host": "127.0.0.1", "port": 0}
    if options.experts:
        content["experts"] = experts_section(options.experts)
    optimizer = content["optimizer"]
    optimizer["total_steps"] = options.steps or optimizer["total_steps"]
    optimizer["warmup_steps"] = min(optimizer["warmup_steps"], optimizer["total_steps"] - 1)
    return content


def _close(
    run: RunFile,
    coordinator: Peer,
    summary: Summary,
    fills: list[Fills],
    answers: dict[str, str],
    out: Path,
    console: Console,
) -> int:
    """Report what the model has learned, the figures, and whether everything happened; returns the exit status."""
    path = save_summary(summary, out)
    if not answers:
        console.print("No held-out sentence has a frequent word between spaces that is one token: none was filled.")
    elif fills:
        console.rule("what the model has learned")
        console.print(render(fills[-1].sentences, answers))
    console.rule("the figures")
    console.print(
        f"{summary.steps} global steps, {summary.samples:,} samples, {summary.seconds:.0f} s, "
        f"{summary.samples_per_second:.0f} samples/s\n"
        f"held-out loss {summary.eval_loss_first:.3f} -> {summary.eval_loss_last:.3f} nats"
        f"{compared(summary.below_unigram)}\n"
        f"{summary.averaging_rounds} rounds of averaging, {summary.averaging_failures} failed; "
        f"waiting for data {summary.data_wait_fraction:.1%} of the time",
        highlight=False,
    )
    for peer in summary.peers:
        mode = ", client mode" if peer.client_mode else ""
        console.print(f"  {peer.name}{mode}: {peer.samples:,} samples, {peer.fate}", highlight=False, markup=False)
    for line in described(summary.experts) if summary.experts else ():
        console.print(line, highlight=False, markup=False)
    console.print(f"Checkpoint: {summary.checkpoint}\nFigures: {path}", highlight=False, markup=False, soft_wrap=True)
    found = problems(run, summary)
    if coordinator.fate != "finished":
        found.append(f"the coordinator {coordinator.fate}")
    for problem in found:
        console.print(f"problem: {problem}", style="red", highlight=False, markup=False)
    return 1 if found else 0
