"""Settings that carry their reasons, and the run file that they become: YAML with a comment in every line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from swarm.run_file.strict_yaml import read_yaml

INDENT = "  "


@dataclass(frozen=True)
class Setting:
    """A value of the run file, and in a few words why it is this one."""

    value: Any
    reason: str


@dataclass(frozen=True)
class Section:
    """A key with keys of its own below it."""

    reason: str
    entries: Mapping[str, "Setting | Section"]
    in_list: bool = False  # the section is the only item of a list


def content(entries: Mapping[str, Setting | Section]) -> dict[str, Any]:
    """The values alone, as a run file's YAML is read."""
    return {key: _value(entry) for key, entry in entries.items()}


def to_yaml(title: str, entries: Mapping[str, Setting | Section]) -> str:
    """The text of a run file; `title` has a comment in each of its lines."""
    lines = [f"# {line}" for line in title.splitlines()]
    for key, entry in entries.items():
        if isinstance(entry, Section):
            lines.append("")
        lines += _lines(key, entry, "")
    return "\n".join(lines) + "\n"


def _value(entry: Setting | Section) -> Any:
    if isinstance(entry, Setting):
        return entry.value
    values = content(entry.entries)
    return [values] if entry.in_list else values


def _lines(key: str, entry: Setting | Section, indent: str) -> list[str]:
    if isinstance(entry, Setting):
        return [f"{indent}{key}: {_scalar(entry.value)} # {entry.reason}"]
    below = [line for name, one in entry.entries.items() for line in _lines(name, one, indent + INDENT)]
    if entry.in_list:
        first = len(indent + INDENT)
        below = [f"{line[:first]}{INDENT if number else '- '}{line[first:]}" for number, line in enumerate(below)]
    return [f"{indent}{key}: # {entry.reason}", *below]


def _scalar(value: Any) -> str:
    """A value in one line, quoted where a run file needs it: there 1e3 is a number, unlike in PyYAML."""
    text: str = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"))
    text = text.removesuffix("...\n").strip()
    return text if read_yaml(text) == value else json.dumps(value, ensure_ascii=False)
