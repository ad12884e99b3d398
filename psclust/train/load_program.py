"""Importing the program that `module:program` names."""

from __future__ import annotations

import difflib
import importlib
import sys

from psclust.errors import UsageError
from psclust.train.program import Program


def load_program(spec: str) -> Program:
    """Imports `module:attribute`, also from the current directory. Raises UsageError if the module
    or the attribute is missing or not a Program; an exception in the module itself passes
    unchanged."""
    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(
            f"{spec!r} names no program; write it as module:program, "
            "for example psclust.examples.digits:program"
        )
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (
            module_name == error.name or module_name.startswith(f"{error.name}.")
        ):
            raise
        raise UsageError(
            f"{spec}: there is no module {error.name!r} in the current directory or on "
            "PYTHONPATH; check its name"
        ) from error
    if not hasattr(module, attribute):
        programs = [name for name, value in vars(module).items() if isinstance(value, Program)]
        near = difflib.get_close_matches(attribute, vars(module), 1)
        hint = (
            f"it has {', '.join(programs)}"
            if programs
            else f"did you mean {near[0]!r}?"
            if near
            else "it has no psclust.Program"
        )
        raise UsageError(f"{spec}: module {module_name!r} has no {attribute!r}; {hint}")
    program = getattr(module, attribute)
    if not isinstance(program, Program):
        raise UsageError(
            f"{spec} is a {type(program).__name__}; it must be a psclust.Program(model_fn, "
            "input_fn, optimizer_fn)"
        )
    return program
