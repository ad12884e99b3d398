"""Signatures of TensorFlow's functions that are found when they are first asked for.

`import tensorflow` decorates its 3,000 functions, some of them four times, and notes what
`inspect.signature` gives twice each time: an eighth of the import, and 50,000 objects that next to
no program looks at.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from psclust.runtime.import_hook import when_imported

_DECORATORS, _INSPECTION = (
    "tensorflow.python.util.tf_decorator",
    "tensorflow.python.util.tf_inspect",
)


class _WhenAsked(inspect.Signature):
    """A signature that asks for itself when a part of it is needed."""

    __slots__ = ("_find",)

    _find: Callable[[], inspect.Signature]

    @classmethod
    def of(cls, find: Callable[[], inspect.Signature]) -> inspect.Signature:
        signature = cls.__new__(cls)
        signature._find = find
        return signature

    def __getattr__(self, name: str) -> Any:
        if name not in inspect.Signature.__slots__:
            raise AttributeError(name)
        found = self._find()
        for slot in inspect.Signature.__slots__:
            setattr(self, slot, getattr(found, slot))
        return getattr(found, name)


@contextmanager
def signatures_when_asked() -> Iterator[None]:
    """Inside, TensorFlow's decorators put off what `inspect` would tell them of plain functions."""
    changed: list[tuple[ModuleType, str, Any]] = []

    def change(module: ModuleType, **names: Any) -> None:
        for name, value in names.items():
            changed.append((module, name, getattr(module, name)))
            setattr(module, name, value)

    def decorators(module: ModuleType) -> None:
        own = SimpleNamespace(**vars(inspect))
        own.signature = _signature
        change(
            module, inspect=own, fullargspec_to_signature=_put_off(module.fullargspec_to_signature)
        )

    when_imported(
        {_DECORATORS: decorators, _INSPECTION: partial(change, _getfullargspec=_argument_names)}
    )
    try:
        yield
    finally:
        for module, name, value in reversed(changed):
            setattr(module, name, value)


def _signature(target: Callable[..., Any]) -> inspect.Signature:
    """`inspect.signature`; it fails at once where it would fail."""
    return (
        _WhenAsked.of(partial(inspect.signature, target))
        if isinstance(target, FunctionType)
        else inspect.signature(target)
    )


def _put_off(
    to_signature: Callable[[Any], inspect.Signature],
) -> Callable[[Any], inspect.Signature]:
    return lambda found: _WhenAsked.of(partial(to_signature, found))


def _argument_names(target: Callable[..., Any]) -> inspect.FullArgSpec:
    """`inspect.getfullargspec`, for plain functions in a tenth of the time."""
    if not isinstance(target, FunctionType) or hasattr(target, "__signature__"):
        return inspect.getfullargspec(target)
    code = target.__code__
    positional, all_named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    rest = iter(names[all_named:])
    return inspect.FullArgSpec(
        args=list(names[:positional]),
        varargs=next(rest) if code.co_flags & inspect.CO_VARARGS else None,
        varkw=next(rest) if code.co_flags & inspect.CO_VARKEYWORDS else None,
        defaults=target.__defaults__,
        kwonlyargs=list(names[positional:all_named]),
        kwonlydefaults=target.__kwdefaults__,
        annotations=dict(target.__annotations__),
    )
