"""What all tests share: their order, their end, and the Bengali text that some of them need."""

import faulthandler
import inspect
import os
import signal
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from swarm.access.passes import Authority

LONGEST_END = 300.0  # seconds for what a test, or all of them, have to put away

os.environ["OMP_NUM_THREADS"] = "1"  # read while torch is imported; threads that share a core wait for each other
os.environ["SAHAJ_LANGUAGE"] = "en"  # whatever the language of a run, or of this machine
# a shell's background job ignores Ctrl-C, and so would all programs that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests with peers wait much of the time: among the others, these use the cores meanwhile."""
    if not hasattr(config, "workerinput"):
        return  # in one process tests stay in their order, and what those of a file share is set up once
    others = [item for item in items if item.get_closest_marker("swarm") is None]
    with_peers = [item for item in items if item.get_closest_marker("swarm") is not None]
    places = [(number + 0.5) / len(others) for number in range(len(others))]
    places += [(number + 0.5) / len(with_peers) for number in range(len(with_peers))]
    items[:] = [item for _, item in sorted(zip(places, others + with_peers, strict=True), key=lambda one: one[0])]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in virtual time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    in_virtual_time(partial(pyfuncitem.obj, **given))
    return True


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """That of most systems; a peer that runs inside of a test changes it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """What hangs here after a failure would hang for ever: the process ends, with the stacks of all threads."""
    faulthandler.dump_traceback_later(LONGEST_END, exit=True, file=item.config.stash[fault_handler_stderr_fd_key])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_unconfigure() -> None:
    """The same for threads that a test has left."""
    faulthandler.dump_traceback_later(LONGEST_END, exit=True)


@pytest.fixture
def authority(tmp_path: Path) -> "Authority":
    from swarm.access.passes import load_authority  # which imports torch

    return load_authority(tmp_path / "authority.key")


@pytest.fixture(scope="session")
def bengali(pytestconfig: pytest.Config) -> Path:
    """A folder of Bengali text: train.jsonl, validation.jsonl, and a tokenizer to compare with."""
    beside = pytestconfig.rootpath.parent / "shared" / "data" / "bengali"
    folder = Path(os.environ.get("SAHAJ_BENGALI", beside))
    if not (folder / "train.jsonl").is_file():
        pytest.skip(f"{folder} holds no train.jsonl; set SAHAJ_BENGALI to a folder that does")
    return folder
