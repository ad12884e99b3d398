"""Records as JSON, from files and requests that may be cut off, damaged, or of another program:
each value has the type that its record declares, or the text is refused. Agents and tasks read
records, too, on hosts that have no pydantic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

_T = TypeVar("_T")
_LARGEST = 1 << 63  # larger numbers fit into no time and no counter

# What a model computes: infinite, or not a number, if the model does.
Measured = Annotated[float, "measured"]
Converter = Callable[[object], Any]


class JsonRecord:
    """A dataclass that is written as JSON, and read from it."""

    __slots__ = ()

    def to_json(self) -> str:
        return json.dumps(asdict(cast(Any, self)))

    @classmethod
    def from_json(cls: type[_T], text: str) -> _T:
        """Ignores keys that it does not know, as of another version. Raises ValueError for anything
        but such a record."""
        return build(cls, parse_json(text))


def parse_json(text: str) -> Any:
    """Raises ValueError for every text that is not JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def build(record: type[_T], data: object) -> _T:
    """The dataclass `record` from a JSON object. Ignores keys that it does not know, as of another
    version. Raises ValueError, with where in the data."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{_brief(data)} is not a JSON object")  # noqa: TRY004 - bad data
    values = {}
    for name, (convert, required) in _members(cast(Any, record)).items():
        if name in data:
            try:
                values[name] = convert(data[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        elif required:
            raise ValueError(f"{name} is missing")
    return record(**values)


@cache
def converter(hint: Any) -> Converter:
    """Turns JSON data into a value of the type `hint`, or raises ValueError."""
    if hint is Any:
        return lambda data: data
    if is_dataclass(hint):
        record = cast(type[object], hint)
        return lambda data: build(record, data)
    if hint == Measured:
        return _only(_is_number)
    if hint is float:  # not NaN either, which no comparison holds for
        return _only(lambda data: _is_number(data) and -_LARGEST <= cast(float, data) <= _LARGEST)
    if hint is int:
        return _only(lambda data: type(data) is int and _is_number(data))
    if hint in (str, bool, NoneType):
        return _only(lambda data: type(data) is hint)
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return _only(lambda data: any(type(data) is type(each) and data == each for each in inner))
    if kind in (Union, UnionType):
        return _first(tuple(map(converter, inner)))
    if kind is tuple and inner[1:] == (...,):
        return _list(converter(inner[0]))
    if kind is tuple:
        return _fixed(tuple(map(converter, inner)))
    if kind is Mapping:
        return _mapping(inner[0], converter(inner[1]))
    raise TypeError(f"no JSON for {hint}")


@cache
def _members(record: type[object]) -> dict[str, tuple[Converter, bool]]:
    """name -> (its converter, whether it has no default)."""
    hints = get_type_hints(record, include_extras=True)
    return {
        each.name: (
            converter(hints[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(cast(Any, record))
    }


def _only(is_allowed: Callable[[object], bool]) -> Converter:
    def convert(data: object) -> object:
        if not is_allowed(data):
            raise _wrong(data)
        return data

    return convert


def _is_number(data: object) -> bool:
    return type(data) is float or (type(data) is int and abs(data) <= _LARGEST)


def _first(options: tuple[Converter, ...]) -> Converter:
    def convert(data: object) -> object:
        for option in options[:-1]:
            try:
                return option(data)
            except ValueError:
                continue
        return options[-1](data)

    return convert


def _list(item: Converter) -> Converter:
    return lambda data: tuple(map(item, _array(data)))


def _fixed(items: tuple[Converter, ...]) -> Converter:
    def convert(data: object) -> tuple[object, ...]:
        found = tuple(_array(data))
        if len(found) != len(items):
            raise _wrong(data)
        return tuple(item(each) for item, each in zip(items, found, strict=True))

    return convert


def _mapping(key: Callable[[Any], object], value: Converter) -> Converter:
    """key: the type of the keys, which are texts in JSON."""

    def convert(data: object) -> dict[object, object]:
        if not isinstance(data, Mapping):
            raise _wrong(data)
        return {key(name): value(each) for name, each in data.items()}

    return convert


def _array(data: object) -> Iterable[object]:
    if not isinstance(data, list | tuple):
        raise _wrong(data)
    return data


def _wrong(data: object) -> ValueError:
    return ValueError(f"{_brief(data)} is not allowed here")


def _brief(data: object) -> str:
    if isinstance(data, Mapping):
        return "an object"
    if isinstance(data, list | tuple):
        return "a list"
    text = repr(data)
    return text if len(text) <= 40 else f"{text[:37]}..."
