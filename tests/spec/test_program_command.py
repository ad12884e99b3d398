"""What a program is, and the command line that runs it."""

from __future__ import annotations

import pytest

from psclust.spec.program_command import ProgramKind, parse_program, split_program
from psclust.spec.python_command import is_interpreter


@pytest.mark.parametrize(
    ("program", "kind", "argv"),
    [
        ("train.py", ProgramKind.SCRIPT, ("py", "train.py")),
        ("-m pkg.train", ProgramKind.MODULE, ("py", "-m", "pkg.train")),
        (["-m", "pkg.train"], ProgramKind.MODULE, ("py", "-m", "pkg.train")),
        (
            "pkg.models:digits",
            ProgramKind.PSCLUST,
            ("py", "-m", "psclust.train", "pkg.models:digits"),
        ),
        ("serve", ProgramKind.COMMAND, ("serve",)),
        (["python3", "train.py"], ProgramKind.COMMAND, ("py", "train.py")),
        (["/usr/bin/python3", "train.py"], ProgramKind.COMMAND, ("/usr/bin/python3", "train.py")),
        (None, ProgramKind.NONE, ()),
    ],
)
def test_a_program_has_a_kind_and_a_command_line(
    program: str | list[str] | None, kind: ProgramKind, argv: tuple[str, ...]
) -> None:
    found = parse_program(program)
    assert (found.kind, found.argv("py")) == (kind, argv)


@pytest.mark.parametrize(
    ("program", "arguments", "source"),
    [
        ("train.py", [], "train.py"),
        ("-m pkg.train", [], "-m pkg.train"),
        (["python", "train.py"], [], "train.py"),
        ("python3.12", ["-m", "pkg.train"], "-m pkg.train"),
        ("pkg:program", [], None),
        (["./serve", "train.py"], [], None),
        (None, [], None),
    ],
)
def test_the_source_of_a_python_program_is_known(
    program: str | list[str] | None, arguments: list[str], source: str | None
) -> None:
    assert parse_program(program).python_source(arguments) == source


@pytest.mark.parametrize(
    ("options", "forkable"), [([], True), (["-u"], False), (["-m"], True), (["-c"], True)]
)
def test_interpreter_options_keep_a_command_from_being_forked(
    options: list[str], forkable: bool
) -> None:
    assert parse_program(["python", *options, "train.py"]).is_forkable([]) is forkable


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("train.py", ["train.py"]),
        ("my folder/train.py", ["my folder/train.py"]),
        ("-m pkg.train", ["-m pkg.train"]),
        ("python train.py --lr 0.1", ["python", "train.py", "--lr", "0.1"]),
        ("python -m pkg.train", ["python", "-m pkg.train"]),
        ("it's.py", ["it's.py"]),
    ],
)
def test_a_program_text_is_split_as_by_a_shell(text: str, words: list[str]) -> None:
    assert split_program(text) == words


def test_interpreters_are_told_by_their_file_name() -> None:
    names = ["python", "python3", "/usr/bin/python3.12", "python2", "pythonw", "train.py"]
    assert [is_interpreter(name) for name in names] == [True, True, True, False, False, False]
