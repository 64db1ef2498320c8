"""BIO tags (Ramshaw & Marcus 1995): `B-PER` begins a person's name, `I-PER` goes on with it, `O` is no name."""

import re
from collections.abc import Iterable

from swarm.errors import DataError

OUTSIDE = "O"
_TAG = re.compile(r"([BI])-(\S+)")


def check_tag(tag: str, place: str) -> None:
    """Refuse what is no BIO tag.

    Raises:
        DataError: with `place`, the tag and what is allowed.
    """
    if tag != OUTSIDE and not _TAG.fullmatch(tag):
        raise DataError(f"{place}: {tag!r} is not a BIO tag; tags must be O, B-TYPE or I-TYPE, as B-PER")


def all_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """`O`, then B and I of each type among `tags` by name: a type with B alone may continue in other text."""
    types = sorted({match.group(2) for tag in tags if (match := _TAG.fullmatch(tag))})
    return (OUTSIDE, *(f"{part}-{kind}" for kind in types for part in "BI"))
