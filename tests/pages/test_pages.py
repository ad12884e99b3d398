"""What the pages show can be typed: options exist, cluster files load, code compiles.
`test_typed_pages.py` runs it."""

from __future__ import annotations

import re
import shlex
import textwrap
from importlib import import_module
from pathlib import Path

import click
import pytest
import yaml
from documented import PAGES, Piece, blocks, code, commands

from beds.found_nodes import find_four_nodes
from psclust.cli.main import VERBS
from psclust.spec.load import load
from psclust.train.program_options import options_parser

_COMMANDS = [
    pytest.param(command, id=f"{piece}: {command}")
    for page in PAGES
    for piece in (*blocks(page), *code(page))
    for command in commands(piece)
]
_FILES = [
    pytest.param(piece, id=str(piece))
    for page in PAGES
    for piece in (*blocks(page), *code(page))
    if piece.is_cluster_file and not piece.text.startswith("hosts: Slurm job")  # what `up` prints
]
_CODE = [
    pytest.param(piece, id=str(piece))
    for page in PAGES
    for piece in blocks(page)
    if piece.is_python
]
_OPTION = re.compile(r"--?[a-z][a-z-]*$")
_OF_OTHERS = {
    "docs/slurm.md: --cpus-per-task",
    "docs/slurm.md: --ntasks-per-node",
    "docs/slurm.md: --no-kill",
    "docs/kubernetes.md: --build-arg",
}


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_command_has_options_that_exist(command: str) -> None:
    words = shlex.split(command.partition(" | ")[0])
    if "..." in words or len(words) < 3:
        # It only names a verb, or says that something stands there.
        assert words[0] == "python" or set(words[1:2]) <= set(VERBS)
        return
    if words[0] == "python":
        assert options_parser().parse_args(words[3:] or ["module:program"])
        return
    _, verb, *arguments = words
    if verb == "help":
        return
    assert verb in VERBS
    with import_module(f"psclust.cli.verbs.{verb}").command.make_context(
        verb, arguments
    ) as context:
        program = context.params.get("program") or ()
    if program and ":" in program[0]:
        assert options_parser().parse_args(list(program))


@pytest.mark.parametrize("piece", _FILES)
def test_a_cluster_file_loads(piece: Piece, tmp_path: Path) -> None:
    # The page may show some keys only, or say that there is one ("`hosts:`").
    shown = yaml.safe_load(re.sub(r"\bthat job\b", "worker", piece.text))
    if list(shown.values()) == [None]:
        return
    jobs = {
        name: 1 for name in ("controller", "chief") if name in piece.text and "jobs" not in shown
    }
    program = (
        "module:program"
        if shown.keys() & {"placement", "input"} or shown.get("tensorboard") is True
        else "train.py"
    )
    data = {"jobs": {"ps": 2, "worker": 1} | jobs, "program": program} | shown
    if "het-" in piece.text:
        data["hosts"] = "slurm"
    (tmp_path / ".env").write_text("", encoding="utf-8")
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    assert load(path, default_name="shown", find_hosts=find_four_nodes, array_task="1")


@pytest.mark.parametrize("piece", _CODE)
def test_code_compiles(piece: Piece) -> None:
    # It may be the end of a function.
    compile(f"def shown():\n{textwrap.indent(piece.python, '    ')}", str(piece), "exec")


def test_every_page_shows_something() -> None:
    """A page whose blocks are no longer found would pass all the others."""
    assert len(_COMMANDS) > 80
    assert len(_FILES) > 30
    assert len(_CODE) > 8


def test_options_named_in_texts_exist() -> None:
    known = {"--help", *options_parser()._option_string_actions}
    for verb in VERBS:
        for parameter in import_module(f"psclust.cli.verbs.{verb}").command.params:
            if isinstance(parameter, click.Option):
                known |= {*parameter.opts, *parameter.secondary_opts}
    named = [
        (word, piece)
        for page in PAGES
        for piece in code(page)
        if (word := piece.text.split()[0]).startswith("-")
    ]
    # Those of `fab`, docker and systemd have a page of their own.
    unknown = {
        f"{piece.page}: {word}"
        for word, piece in named
        if _OPTION.match(word) and word not in known and piece.page != "docs/deploy.md"
    }
    assert unknown == _OF_OTHERS
