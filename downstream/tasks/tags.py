"""Tags of named entities in the schemes BIO, BIOES and BILOU; the program computes with BIO.

BIO (Ramshaw & Marcus 1995): `B-PER` begins a person's name, `I-PER` goes on with it, `O` is no name. The others also
mark the last word of a name, and a name of one word: with E and S, or with L and U (Ratinov & Roth 2009).
"""

import re
from collections.abc import Iterable, Sequence

from downstream.data.examples import Example
from swarm.errors import DataError

OUTSIDE = "O"
BIO = "BIO"
SCHEMES = {"BIOES": "ES", "BILOU": "LU"}  # the parts that only this one has
_TAG = re.compile(r"([BIESLU])-(\S+)")
_IN_BIO = {"B": "B", "I": "I", "E": "I", "L": "I", "S": "B", "U": "B"}


def check_tag(tag: str, place: str) -> None:
    """Refuse what is a tag of none of the schemes.

    Raises:
        DataError: with `place`, the tag and what is allowed.
    """
    if tag != OUTSIDE and not _TAG.fullmatch(tag):
        raise DataError(
            f"{place}: {tag!r} is not a tag of {BIO}, {' or '.join(SCHEMES)}; tags must be O, B-TYPE or I-TYPE, as "
            "B-PER, or the same with E and S, or with L and U"
        )


def scheme_of(examples: Iterable[Example]) -> str:
    """The scheme of all tags: BIO unless a part occurs that only another one has.

    Raises:
        DataError: they are of two schemes, with the places of both.
    """
    found: dict[str, str] = {}
    for example in examples:
        parts = {tag[0] for tag in example.labels if tag != OUTSIDE}
        for scheme, own in SCHEMES.items():
            if parts & set(own):
                found.setdefault(scheme, example.place)
    if len(found) > 1:
        places = " and ".join(f"{scheme} at {place}" for scheme, place in found.items())
        raise DataError(f"the tags are of two schemes, {places}; write all files in one of them")
    return next(iter(found), BIO)


def as_bio(tags: Sequence[str]) -> tuple[str, ...]:
    """The tags of a sentence in BIO, with the same entities; BIO stays as it is."""
    found: list[str] = []
    ended = ""  # the type of the entity whose last word was the one before
    for tag in tags:
        match = _TAG.fullmatch(tag)
        if match is None:
            found.append(tag)
            ended = ""
            continue
        part, kind = match.groups()
        found.append(f"{'B' if kind == ended else _IN_BIO[part]}-{kind}")
        ended = kind if part in "ESLU" else ""
    return tuple(found)


def all_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """`O`, then B and I of each type among BIO tags by name: a type with B alone may continue in other text."""
    types = sorted({match.group(2) for tag in tags if (match := _TAG.fullmatch(tag))})
    return (OUTSIDE, *(f"{part}-{kind}" for kind in types for part in "BI"))
