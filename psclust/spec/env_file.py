"""A file of environment variables, as `.env` files are: KEY=VALUE lines, `#` comments, quotes
around a value."""

from __future__ import annotations

import re

from psclust.errors import ClusterFileError

_LINE = re.compile(r"(?:export\s+)?([^=\s]+)\s*=\s*(.*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_env_file(text: str, where: str) -> dict[str, str]:
    """The last line of a name counts. A value goes to the end of its line; quotes around all of it
    are removed, nothing in it is expanded. No message shows a value, because it may be a secret.
    Raises ClusterFileError with every mistake, one line each: `where:line: ...`."""
    found: dict[str, str] = {}
    problems = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            problems.append(f"{where}:{number}: there is no = in this line; write NAME=VALUE.")
        elif not _NAME.fullmatch(match[1]):
            problems.append(
                f"{where}:{number}: the text before the = is no variable name; "
                "write letters, digits and _."
            )
        else:
            found[match[1]] = _unquoted(match[2])
    if problems:
        raise ClusterFileError(problems)
    return found


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value
