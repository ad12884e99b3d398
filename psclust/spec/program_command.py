"""The program of a cluster file: which kind it is, and the command line that runs it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from psclust.spec.python_command import is_interpreter

_PSCLUST_PROGRAM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class ProgramKind(Enum):
    SCRIPT = "script"  # train.py
    MODULE = "module"  # -m package.train
    PSCLUST = "psclust"  # module:program, a psclust.Program
    COMMAND = "command"  # anything else
    NONE = "none"  # bare servers only


@dataclass(frozen=True, slots=True)
class ProgramCommand:
    """`words` is the argument vector without the interpreter: `("train.py",)`, `("-m",
    "pkg.train")`, `("./train", "--x")`."""

    kind: ProgramKind
    words: tuple[str, ...] = ()

    @property
    def is_psclust(self) -> bool:
        return self.kind is ProgramKind.PSCLUST

    @property
    def is_python(self) -> bool:
        """Whether psclust chooses the interpreter; a command names its own."""
        return self.kind in (ProgramKind.SCRIPT, ProgramKind.MODULE, ProgramKind.PSCLUST)

    @property
    def _names_python(self) -> bool:
        """Whether the command leaves the interpreter to `python:`."""
        return self.kind is ProgramKind.COMMAND and self.words[0] in ("python", "python3")

    def argv(self, python: str) -> tuple[str, ...]:
        """With `python` for the interpreter, also where a command begins with the word `python` or
        `python3`."""
        if self.is_psclust:
            return (python, "-m", "psclust.train", *self.words)
        if self._names_python:
            return (python, *self.words[1:])
        return (python, *self.words) if self.is_python else self.words

    def is_forkable(self, arguments: Sequence[str]) -> bool:
        """Whether a process that has imported TensorFlow can run it: Python, without interpreter
        options."""
        first = [*self.words, *arguments][1:2] if self._names_python else []
        return self.is_python or any(
            word in ("-m", "-c") or not word.startswith("-") for word in first
        )

    def python_source(self, arguments: Sequence[str]) -> str | None:
        """The script (`train.py`) or module (`-m module`) that it runs, directly or through an
        interpreter; None for a psclust program and for other commands."""
        words = [] if self.is_psclust else list(self.words)
        if self.kind is ProgramKind.COMMAND and is_interpreter(words[0]):
            words = [*words[1:], *arguments]
        if words[:1] == ["-m"] and len(words) > 1:
            return f"-m {words[1]}"
        return words[0] if words and words[0].endswith(".py") else None


def parse_program(program: str | Sequence[str] | None) -> ProgramCommand:
    """`train.py`, `-m module`, `module:program`, or a command (a list, or a single word that is
    none of these)."""
    if program is None:
        return ProgramCommand(ProgramKind.NONE)
    words = (program,) if isinstance(program, str) else tuple(program)
    if isinstance(program, str) and program.startswith("-m "):
        words = ("-m", program[3:].strip())
    if _PSCLUST_PROGRAM.fullmatch(words[0]):
        return ProgramCommand(ProgramKind.PSCLUST, words)
    if words[0] == "-m":
        return ProgramCommand(ProgramKind.MODULE, words)
    return ProgramCommand(
        ProgramKind.SCRIPT if words[0].endswith(".py") else ProgramKind.COMMAND, words
    )


def split_program(text: str) -> list[str]:
    """The words of a `program` text as a shell splits them. `-m module`, and a script's path with
    blanks, are one word."""
    try:
        words = shlex.split(text)
    except ValueError:
        return [text]
    start = 1 if words and is_interpreter(words[0]) else 0
    if words[start : start + 1] == ["-m"]:
        words[start : start + 2] = [" ".join(words[start : start + 2])]
    is_path = (
        start == 0 and text.endswith(".py") and not any(word.startswith("-") for word in words)
    )
    return [text] if is_path else words


def no_such_attribute(
    program: str, module: str, attribute: str, programs: Sequence[str], names: Iterable[str]
) -> str:
    """The sentence about `module:attribute` where the module has only `names`, of which `programs`
    are psclust programs."""
    near = get_close_matches(attribute, names, 1)
    hint = (
        f"it has {', '.join(programs)}"
        if programs
        else f"did you mean {near[0]!r}?"
        if near
        else "it has no psclust.Program"
    )
    return f"{program}: module {module!r} has no {attribute!r}; {hint}"
