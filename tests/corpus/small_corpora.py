"""Small files of documents, and the stream of what a run reads from them."""

import json
from pathlib import Path

import pyarrow
from pyarrow import parquet

from corpus.documents import DocumentStream, open_documents
from swarm.run_file import DataSource, RunFile, parse_run


def run_in(folder: Path, **data: object) -> RunFile:
    content = {"name": "test", "data": {"train": [{"path": "unused"}], **data}}
    return parse_run(content, folder / "run.yaml")


def stream(folder: Path, *paths: str, **options: object) -> DocumentStream:
    settings = {"seed": 0, "repeat": False, **options}
    sources = [DataSource(path=path) for path in paths]
    return open_documents(run_in(folder), sources, **settings)  # type: ignore[arg-type]


def write_jsonl(path: Path, texts: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def write_parquet(path: Path, texts: list[str], rows: int = 10) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=rows)


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]
