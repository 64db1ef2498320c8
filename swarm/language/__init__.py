"""What the program tells people, in their language. English stands in the code, others in `translations/`."""

from swarm.language.catalogue import NAMES, SOURCE, Language, known
from swarm.language.speaking import VARIABLE, _, current, mark, several, speak

__all__ = ["NAMES", "SOURCE", "VARIABLE", "Language", "_", "current", "known", "mark", "several", "speak"]
