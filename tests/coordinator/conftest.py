import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from sqlalchemy import create_engine, make_url, text
from transformers import PreTrainedTokenizerFast

from coordinator.ledger.ingest import Contribution, SessionReport
from coordinator.ledger.ledger import Ledger, open_ledger
from swarm.run_file import RunFile, parse_run
from tests.support.postgres_server import WhyNot, running_server
from tokenizer.training import train_tokenizer
from trainer.data import Batch
from trainer.model import build_model
from trainer.models.albert import AlbertPretraining

SENTENCES = [
    "The river carries the boats down to the sea.",
    "Many small boats together carry more than one large ship.",
    "Nobody on the river knows all the others.",
    "In the evening the boats return and tell what they have seen.",
]
SMALL_MODEL = {
    "hidden_size": 16,
    "embedding_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server's first database; the tests that need one are skipped where it cannot be had."""
    try:
        with running_server() as url:
            yield url
    except WhyNot as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest) -> str:
    """A database without tables: in SQLite, and in PostgreSQL."""
    if request.param == "sqlite":
        return "sqlite:///ledger.db"
    server = make_url(request.getfixturevalue("postgres_server"))
    name = f"ledger_{next(NUMBERS)}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return server.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def ledger(ledger_url: str, tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(ledger_url, tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def report() -> Callable[..., SessionReport]:
    """`report("a", user="asha", steps={1: (32, 9.5)})`: session a with 32 samples of loss 9.5 in step 1.

    Each contribution is in a header of its own.
    """

    def make(session: str, *, steps: dict[int, tuple[int, float]] | None = None, **changes: object) -> SessionReport:
        values: dict[str, object] = {
            "session_id": (session * 32)[:32],
            "user": "asha",
            "peer_id": f"peer-{session}",
            "client_mode": False,
            "device": "2 cores",
            "started": 1000.0,
            "last_seen": 1100.0,
            "step": max(steps or [0]),
            "samples_per_second": 10.0,
            "averaging_rounds": 3,
            "contributions": tuple(
                Contribution(f"{session}{step}".rjust(64, "0"), step, samples, 128 * samples, loss)
                for step, (samples, loss) in (steps or {}).items()
            ),
        }
        return SessionReport(**(values | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def run() -> RunFile:
    return parse_run(
        {
            "name": "test-run",
            "tokenizer": {"vocab_size": 96},
            "data": {"train": [{"path": "river.txt"}], "max_length": 64},
            "model": SMALL_MODEL,
        },
        Path("run.yaml"),
    )


@pytest.fixture(scope="session")
def tokenizer(run: RunFile) -> PreTrainedTokenizerFast:
    return train_tokenizer(run, SENTENCES * 20)


@pytest.fixture
def model(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> AlbertPretraining:
    built = build_model(run, tokenizer)
    assert isinstance(built, AlbertPretraining)
    return built


@pytest.fixture
def batches(tokenizer: PreTrainedTokenizerFast) -> list[Batch]:
    """Batches of 4, 2 and 1 random samples with 9, 3 and no masked positions."""
    generator = torch.Generator().manual_seed(0)

    def tokens(*shape: int) -> torch.Tensor:
        return torch.randint(5, len(tokenizer), shape, generator=generator)

    return [
        Batch(
            input_ids=tokens(samples, 16),
            token_type_ids=torch.zeros(samples, 16, dtype=torch.int64),
            attention_mask=None,
            sentence_order_label=torch.arange(samples) % 2,
            masked_positions=torch.randperm(samples * 16, generator=generator)[:masked],
            masked_labels=tokens(masked),
        )
        for samples, masked in ((4, 9), (2, 3), (1, 0))
    ]
