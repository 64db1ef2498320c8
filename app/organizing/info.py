"""`sahaj info CHECKPOINT` shows what a checkpoint is and how to load it."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

from coordinator.checkpoints.checkpoint import TrainerState, read_size, read_state
from coordinator.ledger.answers import compared


@dataclass(frozen=True)
class Description:
    """A checkpoint in figures; `files` are names with sizes in bytes."""

    path: Path
    state: TrainerState
    parameters: int
    vocabulary: int
    files: tuple[tuple[str, int], ...]

    @property
    def snippet(self) -> str:
        """Three lines of Python that load the checkpoint."""
        place = json.dumps(str(self.path), ensure_ascii=False)
        return (
            "from transformers import AutoModelForMaskedLM, AutoTokenizer\n"
            f"model = AutoModelForMaskedLM.from_pretrained({place})\n"
            f"tokenizer = AutoTokenizer.from_pretrained({place})\n"
        )


def describe(checkpoint: Path) -> Description:
    """Read what a checkpoint says about itself; its tensors stay on the disk.

    Raises:
        CheckpointError: the folder is not a checkpoint, or a file of it is broken.
    """
    state = read_state(checkpoint)
    parameters, vocabulary = read_size(checkpoint)
    files = sorted((file.name, file.stat().st_size) for file in checkpoint.iterdir() if file.is_file())
    return Description(checkpoint.absolute(), state, parameters, vocabulary, tuple(files))


def render(description: Description) -> RenderableType:
    """The description for a terminal."""
    state = description.state
    loss = "not evaluated" if state.eval_loss is None else f"{state.eval_loss:.3f} nats"
    if state.perplexity is not None:
        loss += f" (perplexity {state.perplexity:,.1f})"
    loss += compared(state.below_unigram)
    facts = Table.grid(padding=(0, 2))
    order = state.sentence_order_accuracy
    for name, value in (
        ("run", state.run),
        ("global step", f"{state.step:,}"),
        ("samples", f"{state.samples:,}"),
        ("held-out loss", loss),
        *([] if order is None else [("sentence order", f"right in {order:.0%}")]),
        ("parameters", f"{description.parameters:,}"),
        ("vocabulary", f"{description.vocabulary:,} tokens"),
        ("saved", f"{state.saved_at} by Sahaj {state.software}"),
        ("fingerprint", state.fingerprint),
    ):
        facts.add_row(name, escape(value))
    files = Table.grid(padding=(0, 2))
    files.add_column()
    files.add_column(justify="right")
    for name, size in description.files:
        files.add_row(escape(name), readable(size))
    code = Syntax(description.snippet.rstrip(), "python", background_color="default", word_wrap=True)
    return Group(
        f"[bold]{escape(description.path.name)}[/bold]",
        Padding(facts, (0, 2)),
        "[bold]files[/bold]",
        Padding(files, (0, 2)),
        "[bold]to load it[/bold]",
        Padding(code, (0, 2)),
    )


def readable(size: int) -> str:
    """A number of bytes with a unit of a thousand, as in disk makers' figures: 71.8 MB."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
