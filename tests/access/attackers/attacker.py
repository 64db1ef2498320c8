"""`python -m tests.access.attackers.attacker --json SCENE CASE [CASE ...]`: attacks at the same time.

Each is a process of its own, and writes what it got as lines of JSON to `<folder>/<case>/out`, and what went wrong to
`err` beside it.
"""

import argparse
import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.access.attackers import inside, liars, noise, outside
from tests.access.attackers.credentials import Scene
from tests.access.attackers.crowds import join_requests, siege
from tests.access.attackers.intruder import say

FAILED = "failed"  # file in the folder of a case whose attacker came to nothing
CASES: dict[str, Callable[..., Any]] = {
    case.__name__: case
    for case in (
        outside.welcome,
        outside.no_pass,
        outside.forged_pass,
        outside.expired_pass,
        outside.borrowed_pass,
        outside.other_peer,
        inside.replayed,
        inside.for_others,
        inside.odd_records,
        liars.ahead,
        liars.forger,
        liars.freeloader,
        noise.noise,
        noise.endless,
        join_requests.crowd,
        join_requests.flood,
        join_requests.patient,
        join_requests.banned,
        siege.siege,
    )
}


def main() -> None:
    """Fork an attacker for each case: what they import takes seconds, and is imported once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="+", choices=CASES)
    parser.add_argument("--json", required=True)
    given = parser.parse_args()
    told = json.loads(given.json)
    settings = told.pop("settings")
    paths = {name: Path(told[name]) for name in ("folder", "run_file", "authority")}
    scene = Scene(**told | paths | {"peers": tuple(told["peers"])})
    for case in given.cases:
        if os.fork() == 0:
            _attack(case, replace(scene, folder=scene.folder / case), settings)
    failed = sum(os.waitstatus_to_exitcode(os.wait()[1]) != 0 for _ in given.cases)
    sys.exit(failed)


def _attack(case: str, scene: Scene, settings: dict[str, Any]) -> None:
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(scene.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    status = 1
    try:
        say(asyncio.run(CASES[case](scene, **settings)))
        status = 0
    except BaseException:
        traceback.print_exc()
        (scene.folder / FAILED).touch()
        sys.stderr.flush()
    os._exit(status)  # libp2p's daemon is killed with our session; asyncio would complain about it at length


if __name__ == "__main__":
    main()
