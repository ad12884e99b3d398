"""The options of the ways to reach hosts, and what they choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

from psclust.errors import UsageError
from psclust.reach.connections import WayOption
from psclust.reach.ways import WAYS, batch_of

_F = TypeVar("_F", bound=Callable[..., Any])


def way_options(verb: str) -> Callable[[_F], _F]:
    """The options that ways bring to this verb."""

    def decorate(function: _F) -> _F:
        for _, option in reversed(list(_options())):
            if verb in option.helps:
                function = click.option(
                    option.flag,
                    is_flag=option.metavar is None,
                    metavar=option.metavar,
                    help=option.helps[verb],
                )(function)
        return function

    return decorate


def chosen_way(flags: Mapping[str, object]) -> str | None:
    """The word of the way that a flag has chosen. Raises UsageError where options contradict each
    other."""
    choosers = {word: option for word, option in _options() if option.metavar is None}
    chosen = {word: each for word, each in choosers.items() if flags.get(each.parameter)}
    if len(chosen) > 1:
        names = " and ".join(option.flag for option in chosen.values())
        places = " or ".join(option.note for option in chosen.values())
        raise UsageError(f"{names}: a run is {places}; give one of them.")
    way = next(iter(chosen), None)
    for word, option in _options():
        if option.metavar is not None and flags.get(option.parameter) and word != way:
            raise UsageError(f"{option.flag}: {option.note}; give {choosers[word].flag}, too.")
    return way


def is_submitted(flags: Mapping[str, object]) -> bool:
    """Whether they make a batch job. Raises UsageError where they contradict each other."""
    way = chosen_way(flags)
    return way is not None and batch_of(way) is not None


def way_values(flags: Mapping[str, object]) -> Iterator[tuple[WayOption, object]]:
    """The options that were given a value."""
    for _, option in _options():
        value = flags.get(option.parameter)
        if option.metavar is not None and value:
            yield option, value


def _options() -> Iterator[tuple[str, WayOption]]:
    return ((word, option) for word, way in WAYS.items() for option in way().OPTIONS)
