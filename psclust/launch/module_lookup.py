"""Whether `-m module` and `module:program` name something that exists, found without importing
it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from psclust.plan.script_facts import parsed, psclust_programs
from psclust.spec.program_command import no_such_attribute

# A module with one of these may define names that no statement shows.
_HIDES = (
    "__getattr__",
    "globals()",
    "exec(",
    "setattr(",
    "vars()",
    "locals()",
    "sys.modules",
    "import *",
)


def module_problem(program: str, roots: Sequence[Path], *, own_interpreter: bool) -> str | None:
    """Why `-m a.b` or `a.b:program` cannot be run, as a sentence; None if it can, or if that is not
    known. roots: searched first; own_interpreter: whether this interpreter runs it, so that the
    installed packages are the same."""
    name, _, attribute = program.removeprefix("-m ").strip().partition(":")
    paths = [str(root) for root in roots]
    top, *below = name.split(".")
    spec = PathFinder.find_spec(top, paths)
    if (
        spec is None or spec.origin is None
    ):  # a folder without __init__.py: any other module of that name wins
        spec = _installed(top) or spec if own_interpreter else None
    if spec is None:
        return _missing(program, top) if own_interpreter else None
    for length in range(len(below)):
        found = ".".join((top, *below[: length + 1]))
        inner = (
            PathFinder.find_spec(found, spec.submodule_search_locations)
            if spec.submodule_search_locations is not None
            else None
        )
        if inner is None:
            return None if "__path__" in _source(spec) else _missing(program, found)
        spec = inner
    if not attribute:
        is_package = spec.submodule_search_locations is not None
        if (
            is_package
            and PathFinder.find_spec(f"{name}.__main__", spec.submodule_search_locations) is None
        ):
            return (
                f"{program}: {name} is a package without __main__.py, which cannot be run; "
                "name a module in it."
            )
        return None
    return _attribute_problem(program, name, attribute, _source(spec))


def _installed(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except (ImportError, ValueError):
        return None


def _missing(program: str, name: str) -> str:
    return (
        f"{program}: there is no module {name!r} in the tasks' folder, "
        "on PYTHONPATH or installed; check its name."
    )


def _attribute_problem(program: str, module: str, attribute: str, source: str) -> str | None:
    if not source or any(sign in source for sign in _HIDES):
        return None
    tree = parsed(source)
    names = list(dict.fromkeys(_bound(tree))) if tree is not None else [attribute]
    if attribute in names:
        return None
    return no_such_attribute(program, module, attribute, psclust_programs(source), names)


def _source(spec: ModuleSpec) -> str:
    """Empty if it cannot be read."""
    if spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    try:
        return Path(spec.origin).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _bound(tree: ast.Module) -> Iterator[str]:
    """Names that a module's own statements bind, in any branch; of names inside functions and
    classes only global ones."""
    waiting: list[ast.AST] = [tree]
    for child in (child for node in waiting for child in ast.iter_child_nodes(node)):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child.name
            yield from (
                name
                for inner in ast.walk(child)
                if isinstance(inner, ast.Global)
                for name in inner.names
            )
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        else:
            waiting.append(child)
