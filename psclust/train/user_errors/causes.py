"""What of the text of an error is its cause: TensorFlow, AutoGraph and Keras write more into it."""

from __future__ import annotations

import re

# Keras and AutoGraph tell an error again, in another one of the same kind.
_OF_KERAS = "Exception encountered when calling .*"
CONVERTED = "in user code:"
_TOLD_AGAIN = re.compile(rf"^{_OF_KERAS}|^{CONVERTED}", re.MULTILINE)
# The lines of a TensorFlow error that name a place instead of a cause.
_WHERE = re.compile(
    r"Graph execution error:|=*|Detected at node.*|File \".*|Node: '.*|\[\[.*|From /job:.*"
    r"|\d+ root error\(s\) found\.|Original stack trace.*|[A-Z_]+: From /job:.*"
    rf"|{_OF_KERAS}"
)
_LABEL = re.compile(r"^(\(\d+\) )?([A-Z_]+: )?")
_BOLD = re.compile(r"\x1b\[\d+m")
FILE_LINE = re.compile(r'^ *File "(.+)", line (\d+), in (\S+)', re.MULTILINE)
"""Of a traceback: file, line, function."""


def is_told_again(text: str) -> bool:
    return _TOLD_AGAIN.search(text) is not None


def first_line(message: str) -> str:
    """The first that names a cause."""
    lines = [line.strip() for line in _BOLD.sub("", message).splitlines()]
    causes = [line for line in lines if not _WHERE.fullmatch(line)]
    return _LABEL.sub("", causes[0]) if causes else message
