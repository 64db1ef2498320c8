"""Fine-tunes one model with one seed, by the Trainer of Transformers."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from torch.utils.data import SequentialSampler
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from downstream.heads import Reader, label_names
from downstream.tasks.task import Encoded, Scores, Task

EVALUATION_BATCH = 64  # at most; without gradients there is room for twice a training batch


@dataclass(frozen=True)
class Settings:
    """How models are fine-tuned; all models of a comparison in the same way."""

    epochs: int = 20
    """At most; training stops before if validation no longer gets better."""
    patience: int = 3
    """Epochs without any progress on the validation split after which training stops."""
    batch_size: int = 32
    learning_rates: tuple[float, ...] = (1e-4,)
    """If there are several, each model takes the one that validates best with the first seed."""
    weight_decay: float = 0.01
    dropout: float = 0.0
    """At least, wherever a model has dropout. Most runs train without; a task with few examples may want some."""
    warmup: float = 0.1
    """The fraction of all steps in which the learning rate rises; then it falls to 0 in a line."""
    seeds: int = 3
    max_length: int | None = None
    """Tokens of a text; by default what the model reads, at most 512."""


@dataclass(frozen=True)
class Epoch:
    """Scores and loss (nats) on the validation split after an epoch."""

    scores: Scores
    loss: float


@dataclass(frozen=True)
class Fit:
    """The epochs of a fine-tuned model; `best` is the number, from 1, of the one whose weights it has."""

    epochs: tuple[Epoch, ...]
    best: int
    seconds: float

    @property
    def validation(self) -> Scores:
        """The scores of the best epoch."""
        return self.epochs[self.best - 1].scores


def best_epoch(epochs: Sequence[Epoch], score: str) -> int:
    """The number, from 1, of the first epoch with the highest score."""
    return max(range(len(epochs)), key=lambda number: (epochs[number].scores[score], -number)) + 1


def epochs_without_progress(epochs: Sequence[Epoch], score: str) -> int:
    """How many epochs have passed since the score or the loss was better than ever before.

    The loss counts too because F1 stays at 0 for the first epochs of a model that starts from random weights.
    """
    since = 0
    for number, epoch in enumerate(epochs):
        before = epochs[:number]
        better = all(epoch.scores[score] > one.scores[score] for one in before)
        since = 0 if better or all(epoch.loss < one.loss for one in before) else since + 1
    return since


def fit(
    model: PreTrainedModel,
    task: Task,
    reader: Reader,
    train: Encoded,
    validation: Encoded,
    settings: Settings,
    *,
    learning_rate: float,
    seed: int,
    callbacks: Sequence[TrainerCallback] = (),
) -> Fit:
    """Fine-tune a model in place; it ends with the weights of the epoch that validates best."""
    names = label_names(model)

    def scores_of(evaluated: Any) -> Scores:
        return task.score(validation.truth, task.predictions(validation, evaluated.predictions, names))

    kept = _BestEpoch(task.scores, settings.patience)
    steps = -(-len(train.features) // settings.batch_size) * settings.epochs
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        trainer = _trainer(
            model,
            task,
            reader,
            settings.batch_size,
            arguments={
                "output_dir": scratch,
                "eval_strategy": "epoch",
                "learning_rate": learning_rate,
                "num_train_epochs": settings.epochs,
                "seed": seed,
                "train_sampling_strategy": "group_by_length",
                "warmup_steps": round(settings.warmup * steps),
                "weight_decay": settings.weight_decay,
            },
            train_dataset=train.features,
            eval_dataset=validation.features,
            compute_metrics=scores_of,
            callbacks=[kept, *callbacks],
        )
        trainer.train()
    best = best_epoch(kept.epochs, task.scores[0])
    model.load_state_dict(kept.best_weights)
    return Fit(tuple(kept.epochs), best, time.monotonic() - began)


def predict(
    model: PreTrainedModel, task: Task, reader: Reader, encoded: Encoded, batch_size: int = Settings.batch_size
) -> list[tuple[str, ...]]:
    """The labels that a model chooses, for each example in the order in which they were encoded.

    Args:
        batch_size: with which it fits into memory in training.
    """
    with tempfile.TemporaryDirectory() as scratch:
        trainer = _trainer(model, task, reader, batch_size, arguments={"output_dir": scratch})
        predicted = trainer.predict(encoded.features)  # type: ignore[arg-type]  # a list is a dataset
    return task.predictions(encoded, np.asarray(predicted.predictions), label_names(model))


class _Trainer(Trainer):
    """Keeps validation examples in their order; upstream groups them by length, and predictions lose their examples."""

    def _get_eval_sampler(self, eval_dataset: Any) -> SequentialSampler:
        return SequentialSampler(eval_dataset)


def _trainer(
    model: PreTrainedModel, task: Task, reader: Reader, batch_size: int, *, arguments: dict[str, Any], **more: Any
) -> Trainer:
    """A Trainer that writes and prints nothing."""
    on_gpu = torch.cuda.is_available()
    settings = TrainingArguments(
        **arguments,
        bf16=on_gpu and torch.cuda.is_bf16_supported(including_emulation=False),
        dataloader_pin_memory=on_gpu,
        disable_tqdm=True,
        logging_strategy="no",
        per_device_train_batch_size=batch_size,
        per_device_eval_batch_size=min(EVALUATION_BATCH, 2 * batch_size),
        report_to="none",
        save_strategy="no",
    )
    settings._n_gpu = 1  # each of several would take a whole batch, and experts' hooks know of one copy of the model
    trainer = _Trainer(
        model=model,
        args=settings,
        data_collator=getattr(transformers, task.collator)(reader.tokenizer),
        processing_class=reader.tokenizer,
        preprocess_logits_for_metrics=_choose,
        **more,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _choose(logits: Any, labels: Any) -> torch.Tensor:
    """The likeliest label: the scores of all labels for a whole split do not fit into memory."""
    scores = logits[0] if isinstance(logits, tuple) else logits
    return scores.argmax(-1)


class _BestEpoch(TrainerCallback):
    """Keeps the best epoch's weights in memory, and stops training that makes no progress."""

    def __init__(self, scores: Sequence[str], patience: int) -> None:
        self.epochs: list[Epoch] = []
        self.best_weights: dict[str, torch.Tensor] = {}
        self._scores, self._score, self._patience = scores, scores[0], patience

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        model, metrics = more["model"], more["metrics"]
        scores = {name: metrics[f"eval_{name}"] for name in self._scores}
        self.epochs.append(Epoch(scores, metrics["eval_loss"]))
        if best_epoch(self.epochs, self._score) == len(self.epochs):
            self.best_weights = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
        if epochs_without_progress(self.epochs, self._score) >= self._patience:
            control.should_training_stop = True
