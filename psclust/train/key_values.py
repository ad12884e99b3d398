"""Texts `key=value` of the command line, as values of known types."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from psclust.errors import UsageError

_WORDS = {"None": None, "none": None, "True": True, "False": False}


def key_values(option: str, texts: Sequence[str], types: Mapping[str, str]) -> dict[str, Any]:
    """Values are JSON or plain text. option: where the texts stand, such as `--config`. types: key
    -> its type as annotations write it, such as "float | None"; "Any" takes what comes. Raises
    UsageError."""
    values = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{option} {text}: write it as key=value")
        if key not in types:
            near = difflib.get_close_matches(key, types, 1)
            known = ", ".join(types) or "none"
            hint = f"did you mean {near[0]!r}?" if near else f"known are: {known}"
            raise UsageError(f"{option} {text}: there is no key {key!r}; {hint}")
        values[key] = _value(f"{option} {text}", value, types[key])
    return values


def _value(where: str, text: str, type_: str) -> Any:
    allowed = [part.strip().partition("[")[0] for part in type_.split("|")]
    if "str" in allowed:
        return text
    value: Any
    try:
        value = _WORDS[text] if text in _WORDS else json.loads(text)
    except ValueError:
        value = text
    if "tuple" in allowed and isinstance(value, (list, int)):
        value = tuple(value) if isinstance(value, list) else (value,)
    if "float" in allowed and type(value) is int:
        value = float(value)
    name = "None" if value is None else type(value).__name__
    if name not in allowed and "Any" not in allowed:
        raise UsageError(f"{where}: {text!r} is not of type {type_}")
    return value
