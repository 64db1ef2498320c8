"""What all tests share: their order, and the Bengali text that some of them need."""

import os
import signal
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # read while torch is imported; threads that share a core wait for each other
# a shell's background job ignores Ctrl-C, and so would all programs that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Decisions first: whoever broke one knows it before the first peer has started."""
    items.sort(key=lambda item: item.get_closest_marker("swarm") is not None)


@pytest.fixture(scope="session")
def bengali(pytestconfig: pytest.Config) -> Path:
    """A folder of Bengali text: train.jsonl, validation.jsonl, and a tokenizer to compare with."""
    beside = pytestconfig.rootpath.parent / "shared" / "data" / "bengali"
    folder = Path(os.environ.get("SAHAJ_BENGALI", beside))
    if not (folder / "train.jsonl").is_file():
        pytest.skip(f"{folder} holds no train.jsonl; set SAHAJ_BENGALI to a folder that does")
    return folder
