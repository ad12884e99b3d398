"""Command lines of a Python interpreter: where its options end and the program begins."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_INTERPRETER = re.compile(r"python(3(\.\d+)?)?")
# Options that leave the program and its arguments as they are.
_OPTIONS, _OPTIONS_WITH_VALUE = "bBdEIOPqsSuv", "WX"
_ENTRY = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "runtime", "interpreter_entry.py"
)


def is_interpreter(command: str) -> bool:
    """Of `python`, `python3`, `/usr/bin/python3.12`."""
    return _INTERPRETER.fullmatch(os.path.basename(command)) is not None


def program_at(argv: Sequence[str]) -> int | None:
    """The index of the program in a command line such as `python3 -u train.py --lr 1` or
    `/usr/bin/python -m train`; None for any other command, and after an unknown option."""
    if not is_interpreter(argv[0]):
        return None
    options = option_count(argv[1:])
    return None if options is None or 1 + options >= len(argv) else 1 + options


def option_count(arguments: Sequence[str]) -> int | None:
    """How many words of an interpreter's arguments are its own options; None where one of them is
    unknown here."""
    count = 0
    while (
        count < len(arguments)
        and arguments[count].startswith("-")
        and arguments[count] not in ("-", "-c", "-m")
    ):
        rest = arguments[count][1:].lstrip(_OPTIONS)
        if rest and rest[0] not in _OPTIONS_WITH_VALUE:
            return None
        count += 2 if len(rest) == 1 else 1
    return count


def through_entry(argv: Sequence[str], recovery_wait_s: float | None) -> Sequence[str]:
    """`argv` with `runtime/interpreter_entry.py` before its program, which changes TensorFlow for
    it, and finds psclust for psclust's own; unchanged for any other command."""
    program = program_at(argv)
    if program is None:
        return argv
    wait = "-" if recovery_wait_s is None else str(recovery_wait_s)
    return [*argv[:program], _ENTRY, wait, *argv[1:]]
