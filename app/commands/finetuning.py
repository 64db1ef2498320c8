"""The command lines of `sahaj finetune` and `sahaj evaluate`."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from app.startup import set_verbosity


class TaskName(str, Enum):
    """What a model can be taught."""

    ner = "ner"
    classify = "classify"


TrainOption = Annotated[
    Path | None, typer.Option("--train", metavar="FILE", help="CoNLL (ner), JSONL, CSV or TSV; the suffix says which")
]
ValidationOption = Annotated[
    Path | None, typer.Option("--validation", metavar="FILE", help="for choosing the epoch and the best seed")
]
TestOption = Annotated[
    Path | None, typer.Option("--test", metavar="FILE", help="for the scores; nothing is chosen by it")
]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="instead of files: wikiann-bn, indicglue-sna.bn, or a Hub dataset, owner/name or owner/name:configuration",
    ),
]
InputColumnOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="column of tokens or text; by default tokens, words or text")
]
LabelColumnOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="column of tags or label; by default tags, ner_tags or label")
]
SeedsOption = Annotated[int, typer.Option(min=1, help="how many times each model is fine-tuned")]
EpochsOption = Annotated[
    int, typer.Option(min=1, help="at most so many; training stops when validation gets no better")
]
PatienceOption = Annotated[int, typer.Option(min=1, help="epochs without progress after which training stops")]
BatchOption = Annotated[int, typer.Option("--batch-size", min=1, help="examples in a step")]
RateOption = Annotated[
    list[float],
    typer.Option(
        "--learning-rate",
        min=0.0,
        help="if repeated, each model takes the one that validates best with its first seed",
    ),
]
LengthOption = Annotated[
    int | None,
    typer.Option(
        "--max-length", min=8, help="tokens of an example, at most 512; by default as many as the model reads"
    ),
]
DropoutOption = Annotated[
    float, typer.Option(min=0.0, max=0.9, help="the least dropout, wherever a model has some; most runs train without")
]
FromScratchOption = Annotated[
    bool, typer.Option("--from-scratch", help="also train the same architecture from random weights, to compare with")
]
JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="write all results into this file")]
DEFAULT_RATES = [1e-4]


def finetune(
    task: Annotated[
        TaskName,
        typer.Argument(
            metavar="TASK", help="ner (named entities, a tag for each word) or classify (a label for each text)"
        ),
    ],
    model: Annotated[
        str, typer.Option("--model", metavar="PATH_OR_REPO", help="folder or Hub repository of a pretrained model")
    ],
    train: TrainOption = None,
    validation: ValidationOption = None,
    test: TestOption = None,
    dataset: DatasetOption = None,
    input_column: InputColumnOption = None,
    label_column: LabelColumnOption = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="folder for the fine-tuned model; by default finetuned-TASK")
    ] = None,
    seeds: SeedsOption = 3,
    epochs: EpochsOption = 20,
    patience: PatienceOption = 3,
    batch_size: BatchOption = 32,
    learning_rate: RateOption = DEFAULT_RATES,
    dropout: DropoutOption = 0.0,
    max_length: LengthOption = None,
    from_scratch: FromScratchOption = False,
    with_experts: Annotated[
        bool,
        typer.Option("--with-experts", help="fine-tune it together with the run's experts, from the files beside it"),
    ] = False,
    json: JsonOption = None,
) -> None:
    """Teach a pretrained model a task, with several seeds, and save the best."""
    set_verbosity(verbose=False)
    from downstream.data.loading import DataOptions
    from downstream.finetune import finetune as run
    from downstream.tasks import TASKS
    from downstream.tasks.task import Columns
    from downstream.training import Settings

    run(
        TASKS[task.value](),
        model,
        DataOptions(train, validation, test, dataset, Columns(input_column, label_column)),
        Settings(
            epochs=epochs,
            patience=patience,
            batch_size=batch_size,
            learning_rates=tuple(learning_rate),
            dropout=dropout,
            seeds=seeds,
            max_length=max_length,
        ),
        out=out or Path(f"finetuned-{task.value}"),
        from_scratch=from_scratch,
        with_experts=with_experts,
        json_file=json,
    )


def evaluate(
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            metavar="PATH_OR_REPO",
            help="folder, folder of checkpoints, or Hub repository (owner/name, owner/name@revision); repeat it",
        ),
    ],
    task: Annotated[
        TaskName | None,
        typer.Argument(metavar="TASK", help="ner or classify; not needed if a model is already fine-tuned"),
    ] = None,
    train: TrainOption = None,
    validation: ValidationOption = None,
    test: TestOption = None,
    dataset: DatasetOption = None,
    input_column: InputColumnOption = None,
    label_column: LabelColumnOption = None,
    seeds: SeedsOption = 3,
    epochs: EpochsOption = 20,
    patience: PatienceOption = 3,
    batch_size: BatchOption = 32,
    learning_rate: RateOption = DEFAULT_RATES,
    dropout: DropoutOption = 0.0,
    max_length: LengthOption = None,
    from_scratch: FromScratchOption = False,
    with_experts: Annotated[
        bool,
        typer.Option(
            "--with-experts", help="fine-tune models a second time, with the experts in the files beside them"
        ),
    ] = False,
    json: JsonOption = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="draw the score against the global step: FILE.svg or FILE.png")
    ] = None,
) -> None:
    """Compare models and checkpoints of a run on a task; those not fine-tuned yet are fine-tuned first."""
    set_verbosity(verbose=False)
    from downstream.data.loading import DataOptions
    from downstream.evaluate import evaluate as run
    from downstream.tasks.task import Columns
    from downstream.training import Settings

    run(
        None if task is None else task.value,
        model,
        DataOptions(train, validation, test, dataset, Columns(input_column, label_column)),
        Settings(
            epochs=epochs,
            patience=patience,
            batch_size=batch_size,
            learning_rates=tuple(learning_rate),
            dropout=dropout,
            seeds=seeds,
            max_length=max_length,
        ),
        from_scratch=from_scratch,
        with_experts=with_experts,
        json_file=json,
        picture=picture,
    )
