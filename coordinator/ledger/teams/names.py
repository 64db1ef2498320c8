"""What a team may be called, and when two names are the same."""

import re
import unicodedata

from swarm.access import team_refusals

SHORTEST, LONGEST = 2, 30  # characters
MOST_MARKS = 4  # combining ones after one another: no script needs more, and towers of them cover other lines
SIGNS = " -_'."
JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # scripts of South Asia need them
# letters and marks that show nothing: fillers of Hangul, vowels of Khmer, selectors of variants
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


class NameRefused(ValueError):
    """Not a name for a team. The message is one line that says why."""


def team_name(text: str) -> str:
    """The name as it is kept: composed, with single spaces.

    Raises:
        NameRefused: it is too short or too long, or has characters that would hide or disturb others.
    """
    name = unicodedata.normalize("NFC", re.sub(" +", " ", text.strip(" ")))
    if not SHORTEST <= len(name) <= LONGEST:
        raise NameRefused(team_refusals.LENGTH.format(least=SHORTEST, most=LONGEST, n=len(name)))
    marks = 0
    for place, letter in enumerate(name):
        kind = unicodedata.category(letter)
        marks = marks + 1 if kind[0] == "M" else marks if letter in JOINERS else 0
        is_usual = kind[0] in "LM" or kind == "Nd" or letter in SIGNS
        joins = letter in JOINERS and 0 < place < len(name) - 1 and unicodedata.category(name[place - 1])[0] in "LM"
        if not (is_usual or joins) or _INVISIBLE.match(letter):
            raise NameRefused(team_refusals.LETTERS.format(letter=f"U+{ord(letter):04X}", place=place + 1))
        if marks > MOST_MARKS:
            raise NameRefused(team_refusals.MARKS.format(n=MOST_MARKS))
    if unicodedata.category(name[0])[0] == "M":
        raise NameRefused(team_refusals.BEGINNING)
    if not any(unicodedata.category(letter)[0] in "LN" for letter in name):
        raise NameRefused(team_refusals.NO_LETTER)
    return name


def folded(name: str) -> str:
    """What two names have in common that are the same for people: no case, no forms of a letter, no joiners."""
    shown = "".join(letter for letter in name if letter not in JOINERS)
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown).casefold())
    return " ".join(plain.split())
