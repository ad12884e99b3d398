"""A warning about psclust's options after PROGRAM, where the program gets them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import click

from psclust.cli import output
from psclust.launch.program_sources import source_text
from psclust.launch.up_request import UpRequest
from psclust.spec.program_command import ProgramKind


def misplaced(options: Iterable[str], words: Sequence[str], script_text: str | None) -> str | None:
    """The first of the program's arguments that looks like one of `options`; an option whose name
    the script quotes is the script's own."""
    known = set(options)
    for word in words:
        name = word.partition("=")[0]
        own = script_text is not None and re.search(
            rf"""["']({re.escape(name)}|{re.escape(name.lstrip("-"))})["']""", script_text
        )
        if name in known and not own:
            return name
    return None


def warn_of_misplaced_options(request: UpRequest, words: Sequence[str]) -> None:
    """Such as `psclust up train.py --workers 4`. All arguments of a plain command are its own."""
    if not words or request.file.program_command.kind is ProgramKind.COMMAND:
        return
    parameters = click.get_current_context().command.params
    options = [
        name
        for parameter in parameters
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    ]
    if not any(word.partition("=")[0] in options for word in words[1:]):
        return
    found = misplaced(
        options, words[1:], source_text(request.file, request.layout, request.launcher.environ)
    )
    if found is not None:
        output.error(
            f"note: {found} stands after {words[0]}, so the program gets it; "
            f"psclust's own options stand before {words[0]}."
        )
