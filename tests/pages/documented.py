"""What the README and the pages of docs/ show: commands to type, cluster files and Python code."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from psclust.spec.cluster_file import ClusterText

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
)

_TYPED = re.compile(r"(?:\.venv/bin/)?(psclust|python -m psclust\.train)(?= [^-]|$)(.*)")
_PYTHON = re.compile(r"import |from |with |def |[a-z_]+ = |@|>>> ")


@dataclass(frozen=True)
class Piece:
    """A block of a page, or code within its text. line: where it begins, counted from 1."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        """The first line that is no comment."""
        return next(
            (line for line in self.text.splitlines() if line and not line.startswith("#")), ""
        )

    @property
    def is_cluster_file(self) -> bool:
        key, colon, _ = self.first.partition(":")
        return bool(colon) and key in ClusterText.model_fields

    @property
    def is_python(self) -> bool:
        return not self.is_cluster_file and bool(_PYTHON.match(self.first))

    @property
    def python(self) -> str:
        """The code of a Python block: what is typed after it in a shell, or answered at the prompt,
        left out."""
        lines = self.text.splitlines()
        if self.first.startswith(">>> "):
            return "\n".join(line[4:] for line in lines if line.startswith((">>> ", "... ")))
        end = next((number for number, line in enumerate(lines) if _TYPED.match(line)), len(lines))
        return "\n".join(lines[:end])


def blocks(page: str) -> Iterator[Piece]:
    """The indented blocks of a page, outside of lists."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    start = None
    for number, line in enumerate([*lines, "end"]):
        if (
            start is None
            and line.startswith("    ")
            and (number == 0 or not lines[number - 1].strip())
        ):
            start = number
        elif start is not None and line and not line.startswith("    "):
            yield Piece(page, start + 1, textwrap.dedent("\n".join(lines[start:number])).rstrip())
            start = None


def code(page: str) -> Iterator[Piece]:
    """What stands between backquotes in a page's text and tables."""
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines()):
        if not line.startswith("    "):
            for text in re.findall(r"`([^`]+)`", line):
                yield Piece(page, number + 1, text.replace("\\|", "|"))


def commands(piece: Piece) -> Sequence[str]:
    """The commands of psclust in a piece: "psclust ARGUMENTS" or "python -m psclust.train
    ARGUMENTS". Where some lines have a prompt, all others are output."""
    lines = piece.text.splitlines()
    typed = [line[2:] for line in lines if line.startswith("$ ")] or lines
    found = [_TYPED.match(line) for line in typed]
    return [re.sub(r"  +#.*", "", match[1] + match[2]).rstrip() for match in found if match]
