"""YAML for files that people write: a key given twice is a mistake, and 1e-3 is a number."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from swarm.errors import in_a_line


def read_yaml(text: str) -> Any:
    """Parse YAML into plain Python data.

    Raises:
        ValueError: one line that says what is wrong, and in which line.
    """
    try:
        return yaml.load(text, _StrictLoader)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{where}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise ValueError(in_a_line(error)) from None


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that does not keep silent where PyYAML does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping; PyYAML would let the last of two equal keys win."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value} is given twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# PyYAML follows YAML 1.1, where a number with an exponent needs a dot and a sign: 1e-3 would be text
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)
