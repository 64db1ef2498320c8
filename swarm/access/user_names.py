"""Names in passes: those of the Hub, the coordinator's own, and names that people choose where a run is open."""

import unicodedata

UNVERIFIED = "~"  # precedes a name that its owner chose and that is not verified
COORDINATOR = "#coordinator"  # the coordinator's name in its own pass; no Hub user can have it
RESERVED = (COORDINATOR[0], UNVERIFIED)  # first letters of names in passes that are no Hub user's
LONGEST_CHOSEN = 40  # characters, after normalizing
INVISIBLE = ("Cc", "Cs", "Co", "Cn", "Zl", "Zp")  # categories
JOINERS = "\u200c\u200d"  # letters' own in scripts of South Asia and in Persian
# bidirectional controls: one in a name would garble the whole leaderboard
BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_one_line(text: str) -> bool:
    """Whether a text can be shown within a line as it is: without controls, ends of lines, and turns of direction."""
    return not (BIDI_CONTROLS & set(text) or any(unicodedata.category(letter) in INVISIBLE for letter in text))


def chosen_name(name: str | None) -> str | None:
    """A self-chosen name as it is shown, or None if it is not allowed."""
    whole = unicodedata.normalize("NFC", name or "")
    tidy = " ".join(whole.split())
    unseen = {letter for letter in whole if unicodedata.category(letter) == "Cf"}
    if not is_one_line(whole) or unseen - set(JOINERS):  # or one name could be made to look like another
        return None
    if tidy.startswith(RESERVED) or len(tidy) > LONGEST_CHOSEN:
        return None
    return tidy if any(unicodedata.category(letter)[0] in "LNPS" for letter in tidy) else None
