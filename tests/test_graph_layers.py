"""The architecture inside `replication` and `native`, read from the source: no two folders of the
one and no two files of the other import each other, and what is private of TensorFlow's is used in
one file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import psclust

ROOT = Path(psclust.__file__).parent
PRIVATE = ROOT / "replication" / "private_tensorflow.py"
# What tasks replace in TensorFlow when it is imported.
PATCHES = ("runtime/tensorflow_patches.py", "runtime/own_servers.py")
TASK_SIDE = ("replication", "train", "estimator", "examples")


def sources(*parts: str) -> dict[Path, ast.Module]:
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for part in parts
        for path in sorted((ROOT / part).rglob("*.py"))
    }


def folders_imported(found: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """folder of `replication` -> those that its modules import from."""
    imported: dict[str, set[str]] = {}
    for path, tree in found.items():
        folder = path.relative_to(ROOT / "replication").parts[0]
        for node in ast.walk(tree):
            names = (
                node.module.split(".") if isinstance(node, ast.ImportFrom) and node.module else []
            )
            if names[:2] == ["psclust", "replication"] and len(names) > 2:
                imported.setdefault(folder, set()).add(names[2])
    folders = {path.name for path in (ROOT / "replication").iterdir() if path.is_dir()}
    return {one: (others & folders) - {one} for one, others in imported.items() if one in folders}


def circle(imported: Mapping[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def private_uses(found: Mapping[Path, ast.Module]) -> Iterator[str]:
    """Attributes with an underscore that nothing here defines, and imports of what TensorFlow has
    no public name for."""
    own = {name for tree in found.values() for name in _defined(tree)}
    for path, tree in found.items():
        for node in ast.walk(tree):
            name = ""
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                name = "" if node.attr in own or node.attr.startswith("__") else node.attr
            elif isinstance(node, ast.ImportFrom) and node.module:
                name = node.module if node.module.startswith("tensorflow.") else ""
            elif isinstance(node, ast.Import):
                name = next(
                    (each.name for each in node.names if each.name.startswith("tensorflow.")), ""
                )
            if name and path != PRIVATE:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
    # Of named tuples, which are public, of Python's frames, and of `os`.
    yield from ("_fields", "_replace", "_asdict", "_make", "_getframe", "_exit")


def test_no_folder_imports_its_sibling_in_a_circle() -> None:
    imported = folders_imported(sources("replication"))
    assert set(imported) > {"sync", "towers", "passes"}
    assert circle(imported) == []
    assert circle({**imported, "towers": {"sync"}}) != []


def test_no_file_of_c_includes_another_in_a_circle() -> None:
    """A source and its header are one file here."""
    included: dict[str, set[str]] = {}
    for path in sorted((ROOT / "native").glob("*.[ch]")):
        found = re.findall(r'^#include "(\w+)\.h"', path.read_text(encoding="utf-8"), re.M)
        included.setdefault(path.stem, set()).update(set(found) - {path.stem})
    assert included["wire"] >= {"connection"}
    assert circle(included) == []
    assert circle({**included, "kernels": {"wire"}}) != []


def test_private_names_of_tensorflow_are_used_in_one_file() -> None:
    assert list(private_uses(sources(*TASK_SIDE))) == []
    for source in ("x._update_input(0, y)", "from tensorflow.python.ops import z"):
        assert len(list(private_uses({ROOT / "train" / "x.py": ast.parse(source)}))) == 1


def test_what_the_runtime_replaces_is_where_it_is_said_to_be() -> None:
    named = {
        path.relative_to(ROOT).as_posix()
        for path, tree in sources("runtime").items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and str(node.value).startswith("tensorflow.python.")
    }
    assert named <= {*PATCHES, "runtime/signatures_when_asked.py"}
