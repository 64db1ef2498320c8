import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from app.organizing import dashboard
from app.organizing.dashboard import DashboardError, run_dashboard
from tests.app.join.conftest import server as server
from tests.app.join.stand_in import OPEN_RUN, Answer, StandIn
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE, wait_until


@pytest.fixture
def coordinator(server: StandIn) -> str:
    server.answers["GET /api/run"] = Answer(body=OPEN_RUN | {"name": "test-run"})
    return server.url


@contextlib.contextmanager
def sahaj(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`sahaj dashboard`; all its processes are killed when the block ends."""
    command = [sys.executable, "-m", "app.cli", "dashboard", *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def is_well(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/_stcore/health", trust_env=False, timeout=PATIENCE).text == "ok"
    return False


def test_the_dashboard_is_one_process_that_serves_until_ctrl_c(coordinator: str) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with sahaj(coordinator, "--port", url.rsplit(":", 1)[1]) as process:
        assert process.stdout
        assert process.stdout.readline() == f"The dashboard of test-run: {url} (Ctrl-C ends it)\n"
        wait_until(lambda: is_well(url), "dashboard that answers")
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert said == ""


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1", "nothing is listening there"),
        ("run.yaml", "a run file; give the run's link"),
        ("not a url", "not a URL"),
    ],
)
def test_a_wrong_url_ends_in_one_line(url: str, words: str) -> None:
    with sahaj(url, "--port", "0") as process:
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode > 0
    assert out == ""
    assert said.count("\n") == 1
    assert words in said


def test_a_port_in_use_is_named_with_the_way_out(coordinator: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DashboardError, match=f"--port {port}: cannot be listened on .*already in use.*--port 0"):
            run_dashboard(coordinator, "127.0.0.1", port, None, print)


def test_an_address_of_another_machine_is_refused(coordinator: str) -> None:
    with pytest.raises(DashboardError, match=r"--host 192\.0\.2\.1"):
        run_dashboard(coordinator, "192.0.2.1", 8501, None, print)


def test_without_streamlit_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, coordinator: str) -> None:
    monkeypatch.setattr(dashboard, "is_installed", lambda: False)
    with pytest.raises(DashboardError, match=r"pip install streamlit altair"):
        run_dashboard(coordinator, "127.0.0.1", 0, None, print)


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1:8501"),
        ("0.0.0.0", "127.0.0.1:8501, and at this machine's address from elsewhere"),
        ("::", "[::1]:8501, and at this machine's address from elsewhere"),
    ],
)
def test_the_address_that_is_shown_can_be_opened(
    server: StandIn, coordinator: str, host: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.clock_offset = 300  # pages are no passes: the clocks may differ
    monkeypatch.setattr(dashboard, "free_port", lambda host, port: 8501)
    for name in ("nice", "execve"):
        monkeypatch.setattr(os, name, lambda *_: None)
    said: list[str] = []
    run_dashboard(coordinator, host, 8501, None, said.append)
    assert said == [f"The dashboard of test-run: http://{shown} (Ctrl-C ends it)"]
