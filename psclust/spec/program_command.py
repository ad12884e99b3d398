"""What a program is: a script, a module, a psclust program, a command, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from psclust.spec.checks import PSCLUST_PROGRAM

Kind = Literal["script", "module", "psclust", "command", "none"]


@dataclass(frozen=True, slots=True)
class Program:
    """`words` is the argument vector without the interpreter: `("train.py",)`, `("-m", "pkg.train")`, `("./train", "--x")`."""

    kind: Kind
    words: tuple[str, ...] = ()

    @property
    def is_python(self) -> bool:
        return self.kind in ("script", "module", "psclust")

    def is_forkable(self, arguments: Sequence[str]) -> bool:
        """Whether a process that has imported TensorFlow can run it: Python, without options of the interpreter's own."""
        first = [*self.words, *arguments][1:2] if self._names_python else []
        return self.is_python or any(word in ("-m", "-c") or not word.startswith("-") for word in first)

    @property
    def _names_python(self) -> bool:
        return self.kind == "command" and self.words[0] in ("python", "python3")

    def argv(self, python: str) -> tuple[str, ...]:
        """With `python` for the interpreter, also where a command begins with the word `python` or `python3`."""
        if self.kind == "psclust":
            return (python, "-m", "psclust.train", *self.words)
        if self._names_python:
            return (python, *self.words[1:])
        return (python, *self.words) if self.is_python else self.words


def parse_program(program: str | Sequence[str] | None) -> Program:
    """`train.py`, `-m module`, `module:program`, or a command (a list, or a single word that is none of these)."""
    if program is None:
        return Program("none")
    words = (program,) if isinstance(program, str) else tuple(program)
    if isinstance(program, str) and program.startswith("-m "):
        words = ("-m", program[3:].strip())
    if PSCLUST_PROGRAM.fullmatch(words[0]):
        return Program("psclust", words)
    if words[0] == "-m":
        return Program("module", words)
    return Program("script" if words[0].endswith(".py") else "command", words)
