"""The month as rows of the ledger's own tables, so that it looks as if it had been written report by report."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import insert

from coordinator.ledger.answers import FilledSentence
from coordinator.ledger.ingest import PRESENT_SECONDS, day_of
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.storage.database import writing
from coordinator.ledger.tables import Base, DayRow, EvaluationRow, FillRow, MinuteRow, SessionRow, StepRow
from swarm.run_file import RunFile
from tests.recorded_month.people import DAY, Sitting
from tests.recorded_month.training import Brought, Training, learned, minute_is_told

Row = dict[str, Any]
UNIGRAM_LOSS = 7.17  # nats, of a table of word frequencies
TOKENS = 498  # in a sample, of 512 at most
COMMON = ("এবং", "এই", "একটি", "ও", "তার")  # what a model says that knows no more than how often words are
KNOWN = (
    ("ঢাকা", "কলকাতা", "চট্টগ্রাম", "সিলেট", "দিল্লি"),
    ("কবি", "লেখক", "সাহিত্যিক", "শিল্পী", "গায়ক"),
    ("ভাত", "চা", "রুটি", "ফল", "খাবার"),
    ("সাগরের", "দক্ষিণ", "নিচের", "সমুদ্রের", "পূর্ব"),
)


def write_month(folder: Path, run: RunFile, training: Training, began: float, now: float) -> None:
    """Fill a new ledger in the folder."""
    ledger = open_ledger(run.coordinator.ledger, folder)
    tables: list[tuple[type[Base], list[Row]]] = [
        (SessionRow, [_session(one, training, now) for one in training.brought]),
        (StepRow, _steps(training)),
        (DayRow, _days(training, now)),
        (MinuteRow, _minutes(training, began, now)),
        (EvaluationRow, _evaluations(run, training)),
        (FillRow, _fills(run, training)),
    ]
    for kind, rows in tables:
        _write(ledger, kind, rows)
    ledger.close()


def _write(ledger: Ledger, kind: type[Base], rows: list[Row]) -> None:
    if rows:
        with writing(ledger._engine) as connection:
            connection.execute(insert(kind), rows)


def _session(one: Brought, training: Training, now: float) -> Row:
    sitting, samples = one.sitting, int(one.samples.sum())
    present, heard = sitting.end > now, min(sitting.end, now)
    last = one.first + len(one.samples) - 1
    return {
        "session_id": sitting.session_id,
        "user_name": sitting.user,
        "peer_id": f"12D3KooW{sitting.session_id}",
        "client_mode": sitting.client_mode,
        "device": sitting.device,
        "country": sitting.country,
        "started": sitting.start,
        "last_seen": heard,
        "heard": heard,
        "seconds": heard - sitting.start,
        "step": int(training.numbers[min(last, len(training.numbers) - 1)]),
        "samples_per_second": sitting.samples_per_second if present or not sitting.left else 0.0,
        "averaging_rounds": len(one.samples),
        "averaging_failures": int(one.failures.sum()),
        "data_wait_fraction": _data_wait(sitting),
        "has_left": sitting.left and not present,
        "samples": samples,
        "tokens": samples * TOKENS,
        "hosts_experts": False,
        "tokens_served": 0,
    }


def _data_wait(sitting: Sitting) -> float:
    return int(sitting.session_id[:4], 16) / 0xFFFF * 0.04


def _steps(training: Training) -> list[Row]:
    samples, peers = training.summed("samples"), np.zeros(len(training.numbers), np.int64)
    for one in training.brought:
        peers[one.first : one.first + len(one.samples)] += one.samples > 0
    return [
        {"step": step, "samples": n, "tokens": n * TOKENS, "peers": p, "loss_sum": loss * n, "time": time}
        for step, n, p, loss, time in zip(
            *(one.tolist() for one in (training.numbers, samples, peers, training.losses, training.times)), strict=True
        )
        if n
    ]


def _days(training: Training, now: float) -> list[Row]:
    seconds: defaultdict[tuple[int, str], float] = defaultdict(float)
    samples: defaultdict[tuple[int, str], int] = defaultdict(int)
    days = (training.times // DAY).astype(np.int64)  # unix days are those of UTC
    for one in training.brought:
        user, start, end = one.sitting.user, one.sitting.start, min(one.sitting.end, now)
        for day in range(int(start // DAY), int(end // DAY) + 1):
            seconds[day, user] += max(0.0, min(end, (day + 1) * DAY) - max(start, day * DAY))
        counted, sums = days[one.first : one.first + len(one.samples)], one.samples
        for day in np.unique(counted).tolist():
            samples[day, user] += int(sums[counted == day].sum())
    return [
        {
            "day": day_of(day * DAY),
            "user_name": user,
            "samples": samples[day, user],
            "tokens": samples[day, user] * TOKENS,
            "seconds": seconds[day, user],
            "tokens_served": 0,
        }
        for day, user in sorted(seconds.keys() | samples.keys())
    ]


def _minutes(training: Training, began: float, now: float) -> list[Row]:
    """As the coordinator would have found them at each minute's beginning."""
    times = np.arange(math.ceil(began / 60), int(now // 60) + 1) * 60
    starts = np.array([one.sitting.start for one in training.brought])
    ends = np.array([min(one.sitting.end, now) for one in training.brought])
    speeds = np.array([one.sitting.samples_per_second for one in training.brought])
    waits = np.array([_data_wait(one.sitting) for one in training.brought])
    users = np.array([one.sitting.user for one in training.brought])
    firsts = np.sort([starts[users == user].min() for user in np.unique(users)])
    rounds = np.zeros(len(training.numbers), np.int64)
    for one in training.brought:
        rounds[one.first : one.first + len(one.samples)] += 1
    done = np.searchsorted(training.times, times, side="right")
    sums = [
        np.concatenate([[0], np.cumsum(one)])[done]
        for one in (training.summed("samples"), rounds, training.summed("failures"))
    ]
    rows = []
    for position, time in enumerate(times.tolist()):
        if not minute_is_told(time, began):
            continue
        begun = int(np.searchsorted(starts, time, side="right"))  # sittings are in the order of their beginnings
        here = np.flatnonzero(ends[:begun] > time - PRESENT_SECONDS / 2)
        samples, rounded, failed = (int(one[position]) for one in sums)
        rows.append(
            {
                "time": time,
                "sessions": len(here),
                "users": len(set(users[here].tolist())),
                "samples_per_second": float(speeds[here].sum()),
                "data_wait_fraction": float(waits[here].mean()) if len(here) else 0.0,
                "averaging_seconds": 6.0 + 2.5 * math.sin(time / 20_000) + 0.05 * len(here) if len(here) else None,
                "users_ever": int(np.searchsorted(firsts, time, side="right")),
                "samples": samples,
                "tokens": samples * TOKENS,
                "seconds": float((np.minimum(ends[:begun], time) - starts[:begun]).sum()),
                "averaging_rounds": rounded,
                "averaging_failures": failed,
            }
        )
    return rows


def _evaluations(run: RunFile, training: Training) -> list[Row]:
    every = run.coordinator.evaluate_every
    rows = []
    for position in range(every, len(training.numbers), every):
        known = float(learned(position))
        rows.append(
            {
                "step": int(training.numbers[position]),
                "loss": float(training.losses[position]) + 0.06 + 0.01 * math.sin(position),
                "sentence_order_loss": 0.693 - 0.45 * known,
                "samples": run.data.validation_samples,
                "time": float(training.times[position]),
                "sentence_order_accuracy": 0.5 + 0.42 * known,
                "unigram_loss": UNIGRAM_LOSS,
            }
        )
    return rows


def _fills(run: RunFile, training: Training) -> list[Row]:
    every = run.coordinator.checkpoint_every
    return [
        {
            "step": int(training.numbers[position]),
            "time": float(training.times[position]),
            "sentences": [one.model_dump() for one in filled(run.coordinator.probes, position)],
        }
        for position in range(0, len(training.numbers), every)
    ]


def filled(probes: list[str], position: int) -> list[FilledSentence]:
    """What a model might put for the masks after so many steps: common words at first, then fitting ones."""
    known = float(learned(position)) ** 3
    found = []
    for text, words in zip(probes, KNOWN, strict=False):
        guesses = {word: 0.62 * known * 0.5**rank for rank, word in enumerate(words)}
        for rank, word in enumerate(COMMON):
            guesses[word] = (1 - known) * 0.09 * 0.8**rank
        best = sorted(guesses.items(), key=lambda one: -one[1])[:5]
        found.append(FilledSentence.of(text, best))
    return found
