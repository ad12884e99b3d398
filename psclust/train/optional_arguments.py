"""Calling a user's function with the arguments that its signature has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any


def call_with(function: Callable[..., Any], *values: Any, **offered: Any) -> Any:
    """Calls `function` with the arguments of `offered` that it names (all, if it takes `**kwargs`);
    its other parameters, whatever their names, get `values` in order, as many as it has."""
    parameters = inspect.signature(function).parameters.values()
    if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        names = {parameter.name for parameter in parameters}
        offered = {name: value for name, value in offered.items() if name in names}
    if any(
        parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY)
        for parameter in parameters
    ):
        return function(*values, **offered)
    free = [
        p.name
        for p in parameters
        if p.kind is Parameter.POSITIONAL_OR_KEYWORD and p.name not in offered
    ]
    return function(**dict(zip(free, values, strict=False)), **offered)


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether `function` has a parameter of that name or takes `**kwargs`."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
