"""The texts of `join.sh` in other languages: what `say` and `fail` have in quotes, with `$variables` as places."""

import re
from collections.abc import Iterator
from typing import IO

from swarm.language import Language

SPOKEN = re.compile(r'\b(say|fail) "([^"\\`]*)"')
VARIABLE = re.compile(r"\$(\w+)")
Found = tuple[int, str, str, list[str]]  # line, function, text, comments
PLACE = re.compile(r"\{(\w+)\}")
SPECIAL = re.compile(r'[\\$"`]')  # in double quotes


def translated(script: str, language: Language) -> str:
    """The script in a language. No translation becomes a command: only variables that the text has itself are read."""

    def spoken(found: re.Match[str]) -> str:
        text = language.text(_text(found[2]))
        return found[0] if text == _text(found[2]) else f'{found[1]} "{_quoted(text, VARIABLE.findall(found[2]))}"'

    return SPOKEN.sub(spoken, script)


def texts(script: str) -> Iterator[tuple[int, str]]:
    """The texts to be translated, with the numbers of their lines."""
    for number, line in enumerate(script.splitlines(), start=1):
        for found in SPOKEN.finditer(line):
            yield number, _text(found[2])


def extract(fileobj: IO[bytes], keywords: object, comment_tags: object, options: object) -> Iterator[Found]:
    """For Babel, as a method that collects texts from a file."""
    for number, text in texts(fileobj.read().decode()):
        yield number, "_", text, []


def _text(spoken: str) -> str:
    return VARIABLE.sub(r"{\1}", spoken)


def _quoted(text: str, variables: list[str]) -> str:
    """A translation between double quotes."""
    line = SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))
    return PLACE.sub(lambda found: f"${{{found[1]}}}" if found[1] in variables else found[0], line)
