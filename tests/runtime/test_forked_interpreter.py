"""What a forked interpreter knows of itself before it runs a program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from psclust.runtime.forked_interpreter import Interpreter

HERE = Interpreter(
    path=(),
    modules={"json": "/lib/json/__init__.py", "six": "/lib/six.py", "_ext": ""},
    python_path="/p",
    added={},
)


@pytest.mark.parametrize(
    ("file", "hides"),
    [
        ("six.py", True),
        ("json/__init__.py", True),
        ("json/other.py", False),
        ("_ext.so", True),
        ("six.txt", False),
    ],
)
def test_a_file_that_a_fresh_interpreter_would_import_instead_is_found(
    tmp_path: Path, file: str, hides: bool
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert HERE.shadowed(str(tmp_path), "/p") == (str(path) if hides else None)


def test_a_module_does_not_hide_itself(tmp_path: Path) -> None:
    (tmp_path / "six.py").touch()
    here = Interpreter((), {"six": str(tmp_path / "six.py")}, "", {})
    assert here.shadowed(str(tmp_path), "") is None


def test_a_new_python_path_is_searched_and_may_hold_start_up_code(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").touch()
    assert HERE.shadowed("/nowhere", f"/p:{tmp_path}") == str(tmp_path / "sitecustomize.py")
    assert Interpreter((), {}, str(tmp_path), {}).shadowed("/nowhere", str(tmp_path)) is None


def test_only_this_interpreter_in_this_environment_is_this_interpreter(tmp_path: Path) -> None:
    folder, name = Path(sys.executable).parent, Path(sys.executable).name
    linked = tmp_path / name
    linked.symlink_to(sys.executable)
    assert HERE.runs(sys.executable, None)
    assert HERE.runs(name, f"/nowhere:{folder}")
    assert not HERE.runs(name, "/nowhere")
    assert not HERE.runs(name, None) or Path("/bin", name).samefile(sys.executable)
    assert not HERE.runs(str(linked), None), "a link elsewhere is another virtual environment"
    assert not HERE.runs("/bin/sh", None)


def test_a_snapshot_leaves_out_what_the_environment_put_on_the_path() -> None:
    snapshot = Interpreter.snapshot({"PYTHONPATH": "/a:/b"}, ["/a", "/b", "/lib", "/site"])
    assert snapshot.path == ("/lib", "/site")
    assert snapshot.modules["pytest"] == pytest.__file__
