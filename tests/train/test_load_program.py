"""Finding the program that the command line names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from psclust.errors import UsageError
from psclust.train.command_line import load_program

MODULE = """
import psclust
program = psclust.Program(None, None, None)
number = 3
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str, str], None]]:
    """Puts a module where it can be imported from, for one test."""
    names: list[str] = []

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        names.append(name)

    before = list(sys.path)
    sys.path.insert(0, str(tmp_path))
    yield write
    sys.path[:] = before
    for name in names:
        sys.modules.pop(name, None)


def test_a_program_is_found_by_module_and_name(module: Callable[[str, str], None]) -> None:
    module("wanted_one", MODULE)
    assert load_program("wanted_one:program").model_fn is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("wanted", "'wanted' names no program; write it as module:program"),
        ("wanted:", "names no program"),
        (":program", "names no program"),
        ("nowhere.at_all:program", "nowhere.at_all:program: there is no module 'nowhere'"),
        ("wanted_two:Program", "module 'wanted_two' has no 'Program'; it has program"),
        ("wanted_two:number", "wanted_two:number is a int; it must be a psclust.Program"),
    ],
)
def test_what_is_not_there_is_said_in_one_sentence(
    module: Callable[[str, str], None], spec: str, message: str
) -> None:
    module("wanted_two", MODULE)
    with pytest.raises(UsageError) as error:
        load_program(spec)
    assert message in str(error.value)


def test_the_nearest_name_is_offered_where_a_module_has_no_program(
    module: Callable[[str, str], None],
) -> None:
    module("wanted_three", "progam = 1")
    with pytest.raises(UsageError, match="did you mean 'progam'"):
        load_program("wanted_three:program")


def test_an_import_that_fails_inside_the_module_keeps_its_own_error(
    module: Callable[[str, str], None],
) -> None:
    module("wanted_four", "import there_is_no_such_thing")
    with pytest.raises(ModuleNotFoundError, match="there_is_no_such_thing"):
        load_program("wanted_four:program")
