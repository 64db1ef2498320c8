"""The language in which this process tells its person something.

It is that of `SAHAJ_LANGUAGE`, else of the run once that is known, else of the machine's locale; English where there is
no translation. Logs stay English, but for the lines of the console that they repeat.
"""

import os

from swarm.language.catalogue import SOURCE, Language, known

VARIABLE = "SAHAJ_LANGUAGE"
LOCALES = ("LC_ALL", "LC_MESSAGES", "LANG")  # variables of the environment; the first that is set counts
_of_run = ""


def speak(code: str) -> None:
    """From now on use the language of a run, unless the person has asked for another."""
    global _of_run  # noqa: PLW0603  (all threads of a process speak to the same person)
    _of_run = code


def current() -> str:
    """The code of the language."""
    if asked := known(os.environ.get(VARIABLE, "")):
        return asked
    if _of_run:
        return known(_of_run) or SOURCE
    return known(next((found for name in LOCALES if (found := os.environ.get(name))), "")) or SOURCE


def _(text: str) -> str:
    """A text in that language."""
    return Language(current()).text(text)


def several(one: str, many: str, count: float) -> str:
    """One of two forms, by a count, in that language."""
    return Language(current()).several(one, many, count)


def mark(text: str) -> str:
    """A text that is translated where it is shown."""
    return text
