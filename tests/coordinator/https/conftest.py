from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from swarm.run_file import RunFile, parse_run
from tests.support.acme_authority import Authority, WhyNot, running_authority

HOST = "run.example.org"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    """An authority of this machine; its tests are skipped where it cannot be had."""
    pytest.importorskip("acme")
    try:
        with running_authority(tmp_path_factory.mktemp("authority")) as running, pytest.MonkeyPatch.context() as patch:
            patch.setenv("REQUESTS_CA_BUNDLE", str(running.bundle))
            patch.setenv("NO_PROXY", "localhost,127.0.0.1")
            yield running
    except WhyNot as reason:
        pytest.skip(str(reason))


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunFile]:
    def make(url: str = f"https://{HOST}", **tls: Any) -> RunFile:
        content = {
            "name": "test-run",
            "data": {"train": [{"path": "river.txt"}]},
            "access": {"open": True, "url": url, "tls": tls},
        }
        return parse_run(content, tmp_path / "run.yaml")

    return make
