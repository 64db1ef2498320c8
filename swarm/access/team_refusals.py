"""What a coordinator says where something about a team is not possible, and the same in the person's language."""

import re
from string import Formatter

from swarm.language import _, mark

UNKNOWN = mark("there is no team {name} in this run; to start it: `sahaj team LINK create {name}`")
TAKEN = mark("there is a team of that name: {name}; join it, or choose another name")
TOO_MANY_OF_ONE = mark(
    "you have created {n} teams within a day, the maximum; join one (`sahaj team LINK` shows them), or wait a day"
)
TOO_MANY = mark("this run has {n} teams, the maximum; join one: `sahaj team LINK` shows them")
NOTHING_GIVEN = mark(
    "with a self-chosen name you can change teams once the first sample of this machine has been counted; then run "
    "`sahaj team LINK join NAME`"
)
NO_LEDGER = mark("the ledger cannot be written now")
LENGTH = mark("a team's name has {least} to {most} characters, this one has {n}")
LETTERS = mark("a team's name has letters, digits, spaces and - _ ' . only, not {letter} at place {place}")
MARKS = mark("a team's name has at most {n} marks on a letter")
BEGINNING = mark("a team's name begins with a letter or a digit, not with a mark")
NO_LETTER = mark("a team's name has at least one letter or digit")

ALL = (
    *(UNKNOWN, TAKEN, TOO_MANY_OF_ONE, TOO_MANY, NOTHING_GIVEN, NO_LEDGER),
    *(LENGTH, LETTERS, MARKS, BEGINNING, NO_LETTER),
)


def in_own_language(said: str) -> str:
    """A line in the person's language, if it is one of these with values in its places; otherwise as it is."""
    for text in ALL:
        if (values := _values(text, said)) is not None:
            return _(text).format(**values)
    return said


def _values(text: str, said: str) -> dict[str, str] | None:
    """What a line has in the places of a text; None if it is another text's."""
    pattern, names = "", set[str]()
    for before, name, *_more in Formatter().parse(text):
        pattern += re.escape(before)
        if name:
            pattern += f"(?P={name})" if name in names else f"(?P<{name}>.+)"
            names.add(name)
    found = re.fullmatch(pattern, said)
    return None if found is None else found.groupdict()
