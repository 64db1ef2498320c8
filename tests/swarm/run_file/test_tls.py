from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm.errors import RunFileError
from swarm.run_file import RunFile, dump_run, parse_run
from swarm.run_file.tls import TLSSection


def make_run(**access: Any) -> RunFile:
    return parse_run({"name": "tiny", "data": {"train": [{"path": "a"}]}, "access": access}, Path("run.yaml"))


@pytest.mark.parametrize("given", ["auto", {}])
def test_auto_is_all_defaults(given: object) -> None:
    run = make_run(url="https://run.example.org", tls=given)
    assert run.access.tls == TLSSection()
    assert parse_run(yaml.safe_load(dump_run(run)), Path("again.yaml")).access == run.access


@pytest.mark.parametrize(
    ("access", "complaint"),
    [
        ({"tls": "auto"}, "access: tls needs url: https://NAME, with a name that leads to this machine, got nothing"),
        (
            {"tls": "auto", "url": "https://192.0.2.1"},
            "access: tls needs url: https://NAME, .*, got 'https://192.0.2.1'",
        ),
        ({"tls": "auto", "url": "http://run.example.org"}, "access: tls needs url: https://NAME, "),
        (
            {"tls": {"certificate": "a.pem"}},
            "access.tls: key is missing; give the two PEM files, or neither: tls: auto",
        ),
        ({"tls": {"prt": 8443}}, r"unknown key access\.tls\.prt; did you mean port\?"),
        ({"tls": "yes"}, "access.tls: must be auto, or a section with certificate and key, or ports, got 'yes'"),
    ],
)
def test_what_is_missing_is_named(access: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RunFileError, match=rf"^run\.yaml: {complaint}"):
        make_run(**access)
