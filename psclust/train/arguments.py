"""Calling a user's function with as many of the offered arguments as it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def call_with(function: Callable[..., Any], *positional: Any, **offered: Any) -> Any:
    """`function(*positional, **those of offered that it names)`; all of them where it takes `**kwargs`."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return function(*positional, **offered)
    return function(*positional, **{p.name: offered[p.name] for p in parameters if p.name in offered})


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether `function` has a parameter of that name, or takes any."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())


def takes_labels(model_fn: Callable[..., Any]) -> bool:
    """Whether a model function has a second argument for labels, whatever it calls it."""
    positional = [p for p in inspect.signature(model_fn).parameters.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    if positional and positional[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return True
    return len(positional) > 1 and positional[1].name not in ("mode", "params", "config")
