"""What is said about a mistake in a run file: one line with the key, the value and what is allowed."""

import difflib
import typing
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

SHOWN = 60  # characters of a wrong value that a message repeats

ALLOWED = {  # pydantic's kinds of mistakes, in words of our own
    "bool_parsing": "must be true or false",  # the kinds with _parsing: from a table's text
    "bool_type": "must be true or false",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "model_type": "must be a section with keys of its own",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "too_long": "must have at most {max_length} entries",
    "too_short": "must have at least {min_length} entry",
    "tuple_type": "must be a list",
}


def describe(error: ValidationError, root: type[BaseModel]) -> str:
    """One line for the first mistake that was found in a `root`; how many others there are, in brackets."""
    problems = error.errors()
    # a misspelled key explains why another one is missing
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    others = len(problems) - 1
    more = f" (and {others} more {'mistake' if others == 1 else 'mistakes'})" if others else ""
    return _line(first, root) + more


def _line(problem: Any, root: type[BaseModel]) -> str:
    location: tuple[int | str, ...] = problem["loc"]
    key, kind = ".".join(map(str, location)), problem["type"]
    if kind in ("extra_forbidden", "invalid_key"):
        allowed = list(_section_at(location[:-1], root).model_fields)
        close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"unknown key {key}; {hint}allowed here: {', '.join(allowed)}"
    field = _field_at(location, root)
    meaning = field.description if field is not None else None
    if kind == "missing":
        return f"{key} is missing" + (f" ({meaning})" if meaning else "")
    if kind == "value_error":
        message = problem["msg"].removeprefix("Value error, ")
        return f"{key}: {message}" if key else message
    if kind == "string_pattern_mismatch":
        allowed_values = f"must be {meaning or problem['ctx']['pattern']}"
    elif kind == "string_type" and problem["input"] is not None:
        allowed_values = "must be text; put it in quotes"  # `no` is false to YAML, and 2024 a number
    elif kind in ALLOWED:
        allowed_values = ALLOWED[kind].format(**problem.get("ctx", {}))
    else:
        allowed_values = problem["msg"].replace("Input should", "must")
    return f"{key} {allowed_values}, got {shown(problem['input'])}"


def shown(value: object) -> str:
    """A value as a person wrote it in YAML, cut to a length that fits a message."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _section_at(location: tuple[int | str, ...], root: type[BaseModel]) -> type[BaseModel]:
    """The model class behind a path of keys and list positions."""
    section = root
    for part in location:
        if isinstance(part, str):
            section = _model_in(section.model_fields[part].annotation) or section
    return section


def _field_at(location: tuple[int | str, ...], root: type[BaseModel]) -> FieldInfo | None:
    """The field that the last key of a path names; None for a place in a list."""
    if not location or isinstance(location[-1], int):
        return None
    return _section_at(location[:-1], root).model_fields.get(location[-1])


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model class in an annotation such as `list[DataSource] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, typing.get_args(annotation))), None)
