"""`join.sh` in other languages: what it tells is translated, and no translation is a command."""

import subprocess
from pathlib import Path

import pytest

from coordinator.join_script.script import SCRIPT, script_for
from coordinator.join_script.translation import texts, translated
from coordinator.notebook.wheel import Program
from swarm.language import NAMES, SOURCE, Language
from tests.coordinator.join_script.conftest import RUN, Machine

OTHERS = sorted(NAMES.keys() - {SOURCE})
SHELLS = (["dash"], ["bash", "--posix"])
HOSTILE = (
    "$(touch came-in)",
    "`touch came-in`",
    '"; touch came-in; "',
    "'; touch came-in; '",
    "\\",
    '\\"; touch came-in #',
    "$IFS",
    "${other}",
    "{other}",
    "a\ntouch came-in",
)


class Spoken(Language):
    """A language in which every text is the same one."""

    def text(self, text: str) -> str:
        return self.code


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_it_is_valid_in_every_language(shell: list[str], code: str, tmp_path: Path) -> None:
    script = tmp_path / "join.sh"
    script.write_bytes(script_for("https://run.example.org", Program("1", "one.whl", b""), run=RUN, language=code))
    checked = subprocess.run([*shell, "-n", str(script)], check=False, capture_output=True, text=True)
    assert checked.stderr == ""


@pytest.mark.parametrize("code", OTHERS)
def test_only_what_it_tells_is_translated(code: str) -> None:
    english, other = SCRIPT.read_text().splitlines(), translated(SCRIPT.read_text(), Language(code)).splitlines()
    lines = {number for number, _ in texts(SCRIPT.read_text())}
    assert {number for number, pair in enumerate(zip(english, other, strict=True), 1) if len(set(pair)) > 1} == lines
    assert translated(SCRIPT.read_text(), Language(SOURCE)) == SCRIPT.read_text()


def test_everything_that_it_tells_is_a_text_to_be_translated() -> None:
    commands = [
        line.partition("#")[0]
        for line in SCRIPT.read_text().splitlines()
        if (" say " in line or " fail " in line or line.startswith("stopped()"))
    ]
    assert len(commands) == len(list(texts(SCRIPT.read_text())))


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_no_translation_is_a_command(shell: list[str], text: str, tmp_path: Path) -> None:
    script = translated('say() { printf \'%s\' "$1"; }\nhome=there other=not-this\nsay "in $home"\n', Spoken(text))
    done = subprocess.run([*shell, "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == " ".join(text.split())
    assert not list(tmp_path.iterdir())


def test_variables_of_the_text_are_read_wherever_the_translation_has_them() -> None:
    script = translated('say "in $home with $python"', Spoken("{python} দিয়ে {home}-এ, ${home}"))
    assert script == 'say "${python} দিয়ে ${home}-এ, \\$${home}"'


def test_a_volunteer_is_told_in_the_language_of_the_run(machine: Machine) -> None:
    machine.language = "bn"
    machine.environment["LC_ALL"] = "C"
    first = machine.start()
    assert first.stdout.startswith("JOINED")
    told = first.stderr.splitlines()
    assert told[0] == f"এই কম্পিউটার {RUN} প্রশিক্ষণে ({machine.url}) যোগ দেবে।"
    assert f"'{machine.installation.parent}/commands/sahaj' leave '{machine.url}'" in told[3]
    machine.has("uname", '#!/bin/sh\necho "Linux armv7l"\n')
    machine.offers("second")
    assert machine.start().stderr.splitlines()[-1].startswith("join.sh: Linux armv7l: এমন যন্ত্রের জন্য")
