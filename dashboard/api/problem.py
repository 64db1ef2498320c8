"""What is said where the coordinator gives no answer: raised in English, told in the language of its reader."""

from dashboard.language import _


class Problem(Exception):
    """One line for people: a text with places for values. Without values it is said as it is."""

    def __init__(self, text: str, **values: object):
        super().__init__(text.format(**values) if values else text)
        self._text, self._values = text, values

    def told(self) -> str:
        """The line in the reader's language; in English where that has none, as for the coordinator's own words."""
        return _(self._text).format(**self._values) if self._values else _(self._text)
