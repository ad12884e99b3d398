"""The architecture, read from the source: who may import whom, who may import TensorFlow, and how
long a file and a function may be."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "psclust"
SOURCES = sorted(path for path in ROOT.rglob("*.py") if "_pb2" not in path.name)
MAX_FILE = 399
MAX_FUNCTION = 60
SECONDS = {
    "timeout",
    "grace",
    "lease",
    "patience",
    "interval",
    "delay",
    "pause",
    "wait",
    "period",
    "age",
    "duration",
}

# The launcher, from the ground up. A part may import those below it; parts on one floor do not know
# each other.
LAUNCHER = (
    ("errors", "framing", "failed_threads"),
    ("placement",),
    ("spec",),
    ("rundir",),
    ("plan",),
    ("transport", "pods"),
    ("forward",),
    ("supervise",),
    ("reach", "agent"),
    ("control",),
    ("launch",),
    ("cli", "api"),
)
# What runs inside tasks, from the ground up, and the parts of the launcher that it may use.
TASK_SIDE = (("runtime",), ("replication",), ("estimator",), ("train",), ("examples",))
SHARED = {"errors", "framing", "failed_threads", "spec", "placement", "rundir"}
LAUNCHER_PARTS = {part for floor in LAUNCHER for part in floor}
TASK_PARTS = {part for floor in TASK_SIDE for part in floor}
WAYS_TABLE, WAY_FOLDERS = "reach/ways.py", ("reach/kubernetes/", "reach/slurm/", "reach/ssh/")
WAY_NAME = re.compile(r"(?<![a-z])(ssh|slurm|kubernetes)(?![a-z])", re.IGNORECASE)
# What starts and holds runs, however their hosts are reached.
GENERIC = (
    "launch/",
    "control/",
    "supervise/",
    "transport/",
    "agent/",
    "plan/build_plan.py",
    "reach/python/",
    "cli/starting.py",
    "cli/submitting.py",
    "cli/request.py",
    "cli/request_options.py",
    "cli/host_options.py",
    "cli/way_options.py",
    "cli/verbs/up.py",
    "cli/verbs/exec.py",
)
TENSORFLOW = {"tensorflow", "tf_keras", "keras"}
# `pip install tensorflow` brings these: all that a host has for an agent and the tasks there.
ON_HOSTS = {"tensorflow", "numpy", "grpc", "google"}  # google: protobuf


def below(floors: tuple[tuple[str, ...], ...], part: str) -> set[str]:
    level = next(index for index, floor in enumerate(floors) if part in floor)
    return {other for floor in floors[:level] for other in floor} | {part}


# `testing` is for tests of users and stands above all; the package itself loads nothing, its
# command the launcher.
ALLOWED = {part: below(LAUNCHER, part) for part in LAUNCHER_PARTS}
ALLOWED |= {part: below(TASK_SIDE, part) | SHARED for part in TASK_PARTS}
ALLOWED |= {
    "native": set(),
    "testing": LAUNCHER_PARTS | TASK_PARTS | {"testing"},
    "__init__": set(),
    "__main__": LAUNCHER_PARTS,
}


def part_of(path: Path) -> str:
    """`psclust/spec/load.py` is of `spec`; a module at the top is a part by itself."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(
    path: Path, tree: ast.AST, *, for_checkers: bool = False
) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every import, inside functions too and, on request, for type
    checkers only; `from a import b` is `a.b`."""
    package = ("psclust", *path.relative_to(ROOT).parent.parts)
    unseen = {
        id(inner)
        for node in ast.walk(tree)
        if is_for_checkers(node) and not for_checkers
        for inner in ast.walk(node)
    }
    for node in (node for node in ast.walk(tree) if id(node) not in unseen):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def is_for_checkers(node: ast.AST) -> bool:
    """`if TYPE_CHECKING:`, which never runs."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def breaches(path: Path, source: str) -> list[str]:
    part = part_of(path)
    found = []
    for line, name in imports_of(path, ast.parse(source)):
        top, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if top == "psclust" and other in ALLOWED and other not in ALLOWED[part]:
            found.append(f"{path}:{line}: {part} may not import {name}")
        if top in TENSORFLOW and part not in TASK_PARTS | {"testing"}:
            found.append(f"{path}:{line}: the launcher may not import {name}")
    return found


def ways_bypassed(path: Path, source: str) -> list[str]:
    """Imports of a way to reach hosts, from outside it: only the table knows the ways."""
    place = path.relative_to(ROOT).as_posix()
    if place == WAYS_TABLE or place.startswith(WAY_FOLDERS):
        return []
    folders = tuple(f"psclust.{folder.replace('/', '.')}" for folder in WAY_FOLDERS)
    return [
        f"{path}:{line}: {name}"
        for line, name in imports_of(path, ast.parse(source))
        if f"{name}.".startswith(folders)
    ]


def ways_named(path: Path, source: str) -> list[str]:
    """Names and texts of a generic file that name a way, docstrings aside."""
    place = path.relative_to(ROOT).as_posix()
    in_reach = path.parent == ROOT / "reach" and place != WAYS_TABLE
    if not (place.startswith(GENERIC) or in_reach):
        return []
    found = []
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        texts = [value for _, value in ast.iter_fields(node) if isinstance(value, str)]
        if id(node) not in docs and WAY_NAME.search(" ".join(texts).replace("_", " ")):
            found.append(f"{path}:{getattr(node, 'lineno', 0)}: {' '.join(texts)}")
    return found


def misnamed(path: Path, source: str) -> Iterator[str]:
    """Loggers of modules are `LOG`; parameters and fields that hold seconds end in `_s`, except the
    flags of verbs."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(
            "logging.getLogger(__name__"
        ):
            yield from (
                f"{path}:{node.lineno}: {ast.unparse(name)}"
                for name in node.targets
                if ast.unparse(name) != "LOG"
            )
        named = (node.arg, node.annotation) if isinstance(node, ast.arg) else None
        if isinstance(node, ast.AnnAssign):
            named = (ast.unparse(node.target), node.annotation)
        if (
            named
            and named[1]
            and "float" in ast.unparse(named[1])
            and named[0] in SECONDS
            and "verbs" not in path.parts
        ):
            yield f"{path}:{node.lineno}: {named[0]}"


def long_functions(path: Path, source: str) -> list[str]:
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )
    lengths = (
        (node.lineno, node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in functions
    )
    return [
        f"{path}:{line}: {name} has {length} lines"
        for line, name, length in lengths
        if length > MAX_FUNCTION
    ]


def name_of(path: Path) -> str:
    return ".".join(("psclust", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


def circle(sources: Mapping[Path, str]) -> list[str]:
    """The modules of one circle of imports, the first one again at the end; empty if there is none.
    Imports inside functions and for type checkers count."""
    modules = {name_of(path) for path in sources}
    imports: dict[str, set[str]] = {}
    for path, source in sources.items():
        names = [name for _, name in imports_of(path, ast.parse(source), for_checkers=True)]
        found = {name if name in modules else name.rpartition(".")[0] for name in names} & modules
        imports[name_of(path)] = found - {name_of(path)}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def in_all_sources(check: Callable[[Path, str], Iterable[str]]) -> list[str]:
    return [entry for path in SOURCES for entry in check(path, path.read_text(encoding="utf-8"))]


def test_every_part_has_its_place() -> None:
    parts = {part_of(path) for path in SOURCES}
    assert parts <= set(ALLOWED)


def test_imports_go_downward_only() -> None:
    assert in_all_sources(breaches) == []


def test_imports_go_in_no_circle() -> None:
    assert circle({path: path.read_text(encoding="utf-8") for path in SOURCES}) == []


def test_only_the_table_of_ways_knows_how_hosts_are_reached() -> None:
    assert in_all_sources(ways_bypassed) == []
    for source in (
        "from psclust.reach import ssh",
        "def f():\n    from psclust.reach.ssh.tunnel import SshTunnel",
    ):
        assert len(ways_bypassed(ROOT / "control/x.py", source)) == 1


def test_generic_files_name_no_way_to_reach_hosts() -> None:
    assert in_all_sources(ways_named) == []
    for source in (
        'held = file.reach_by == "ssh"',
        "def f():\n    return file.slurm.requeue",
        "SSH_LOGIN_S = 5.0",
        'text = f"Slurm job {job}"',
        "import psclust.reach.ssh",
    ):
        assert ways_named(ROOT / "launch/x.py", source), source
    assert not ways_named(ROOT / "launch/x.py", '"""By SSH, say."""')


def outside_imports(parts: set[str]) -> dict[str, str]:
    """Package -> a module that imports it, of all modules that the modules of `parts` import,
    directly or not. Without Python's own."""
    modules = {name_of(path): path for path in SOURCES}
    todo = [name for name, path in modules.items() if part_of(path) in parts]
    seen: set[str] = set()
    found: dict[str, str] = {}
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for _, imported in imports_of(
            modules[name], ast.parse(modules[name].read_text(encoding="utf-8"))
        ):
            inner = [
                module
                for module in accumulate(imported.split("."), "{}.{}".format)
                if module in modules
            ]
            todo += inner
            if not inner:
                found[imported.partition(".")[0]] = name
    return {
        package: name for package, name in found.items() if package not in sys.stdlib_module_names
    }


def test_a_host_needs_only_tensorflow() -> None:
    found = outside_imports(TASK_PARTS | {"agent"})
    assert {package: name for package, name in found.items() if package not in ON_HOSTS} == {}
    assert set(found) == ON_HOSTS
    assert "pydantic" in outside_imports({"plan"})


def test_no_file_name_occurs_twice() -> None:
    assert twice(SOURCES) == []
    # Tests import their helpers by name alone: of two helpers with one name, both would get the one
    # that was imported first.
    assert twice(path for path in TESTS.rglob("*.py") if path.name != "conftest.py") == []


def twice(paths: Iterable[Path]) -> list[str]:
    counts = Counter(path.name for path in paths if not path.name.startswith("__"))
    return sorted(name for name, count in counts.items() if count > 1)


def test_loggers_and_seconds_have_their_names() -> None:
    assert in_all_sources(misnamed) == []
    source = (
        "log = logging.getLogger(__name__)\ndef f(timeout: float) -> None: ...\nclass C:\n"
        "    grace: float | None = None\n"
    )
    assert len(list(misnamed(ROOT / "x.py", source))) == 3


def test_files_stay_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: length for path, length in lengths.items() if length > MAX_FILE} == {}


def test_functions_stay_short() -> None:
    assert in_all_sources(long_functions) == []
    source = "def f():\n" + "    pass\n" * MAX_FUNCTION
    assert len(long_functions(ROOT / "x.py", source)) == 1
    assert long_functions(ROOT / "x.py", source.removesuffix("    pass\n")) == []


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("spec/x.py", "from psclust.plan.build_plan import build_plan"),
        ("spec/x.py", "from psclust import plan"),
        ("spec/x.py", "from ..plan import build_plan"),
        ("spec/x.py", "from .. import plan"),
        ("plan/x.py", "import psclust.transport.api"),
        ("rundir/x.py", "from psclust.plan.task_plan import Plan"),
        ("cli/x.py", "def f():\n    from psclust.train import loop"),
        ("cli/x.py", "def f():\n    import tensorflow as tf"),
        ("placement/x.py", "from tensorflow.core import protobuf"),
        ("replication/x.py", "from psclust.train import loop"),
        ("train/x.py", "from psclust.plan.build_plan import build_plan"),
        ("supervise/x.py", "from psclust.testing import wait"),
        ("__init__.py", "from psclust.train.program import Program"),
    ],
)
def test_a_breach_would_be_seen(place: str, source: str) -> None:
    assert len(breaches(ROOT / place, source)) == 1


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("cli/x.py", "import psclust\nfrom psclust.supervise.state_machine import transition"),
        (
            "train/x.py",
            (
                "import tensorflow as tf\nfrom psclust.replication import wire\n"
                "from psclust.rundir import folder"
            ),
        ),
        ("testing/x.py", "from psclust.transport.api import Transport"),
        ("__init__.py", "if TYPE_CHECKING:\n    from psclust.train.program import Program"),
        ("spec/x.py", "from .cluster import Host\nfrom psclust.errors import UsageError"),
    ],
)
def test_what_is_allowed_passes(place: str, source: str) -> None:
    assert breaches(ROOT / place, source) == []


@pytest.mark.parametrize(
    "back",
    [
        "from psclust.train.a import A",
        "from psclust.train import a",
        "def f():\n    from psclust.train import a",
        "if TYPE_CHECKING:\n    from psclust.train.a import A",
    ],
)
def test_a_circle_would_be_seen(back: str) -> None:
    there = "from psclust.train.b import B"
    assert len(circle({ROOT / "train/a.py": there, ROOT / "train/b.py": back})) == 3
