"""Translations of texts, as gettext's `.po` files have them."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # English needs no catalogue
    from babel.messages.catalog import Catalog, Message

SOURCE = "en"
NAMES = {SOURCE: "English", "bn": "বাংলা"}  # as their readers call them
TRANSLATIONS = Path(__file__).with_name("translations")


def known(code: str) -> str:
    """The language of a code or a locale, bn for bn-BD and bn_BD.UTF-8; empty if there is no translation."""
    base = code.replace("_", "-").replace(".", "-").partition("-")[0].casefold()
    return base if base in NAMES else ""


@lru_cache(maxsize=len(NAMES))
def catalogue(code: str) -> "Catalog":
    """What there is in a language."""
    from babel.messages.pofile import read_po

    with (TRANSLATIONS / f"{code}.po").open("rb") as file:
        return read_po(file, locale=code)


@dataclass(frozen=True)
class Language:
    """One that texts are translated into; English where the code has no translation, or a text has none."""

    code: str = SOURCE

    def text(self, text: str) -> str:
        """A text in it."""
        message = self._find(text) if text else None
        return message.string if message is not None and message.string and isinstance(message.string, str) else text

    def name_of(self, code: str) -> str:
        """What it calls a language: by its name if it is this one, else by the code."""
        return NAMES[self.code] if known(code) == self.code else code

    def texts(self) -> dict[str, str]:
        """All that it has, by the English texts; counted ones are left out."""
        code = known(self.code) or SOURCE
        if code == SOURCE:
            return {}
        found = ((one.id, one.string) for one in catalogue(code) if one.id)
        return {text: told for text, told in found if isinstance(text, str) and isinstance(told, str)}

    def several(self, one: str, many: str, count: float) -> str:
        """One of two forms, by a count."""
        message = self._find((one, many))
        forms = message.string if message is not None and isinstance(message.string, tuple | list) else ()
        return (forms[0 if count == 1 else -1] if forms else "") or (one if count == 1 else many)

    def _find(self, text: str | tuple[str, str]) -> "Message | None":
        code = known(self.code) or SOURCE
        return None if code == SOURCE else catalogue(code).get(text)
