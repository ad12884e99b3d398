"""Facts about a Python program, read from its source: which flags for its role it defines, and
whether it reads TF_CONFIG. Nothing is imported or run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

# The four flags of TensorFlow 1 scripts, with the placeholder for each value.
CLASSIC_FLAGS = {
    name: f"--{name}={{{name}}}" for name in ("ps_hosts", "worker_hosts", "job_name", "task_index")
}
_JOB_HOSTS = re.compile(r"[a-z][a-z0-9_]*_hosts")  # the addresses of any job, such as chief_hosts
# absl and tf.app.flags (`DEFINE_string`), argparse, optparse, click, and the usual names of
# wrappers around them.
_DEFINES = re.compile(r"define|flag|option|argument|add_arg", re.IGNORECASE)
_CLUSTER = {"ClusterSpec", "Server"}
_READERS = {"TFConfigClusterResolver"}
# These read TF_CONFIG unless they get a cluster, which the source alone does not show.
_MAY_READ = {
    "RunConfig",
    "train_and_evaluate",
    "ParameterServerStrategy",
    "MultiWorkerMirroredStrategy",
    "Estimator",
}
_OWN_RESOLVER = "SimpleClusterResolver"
COORDINATING = ("ClusterCoordinator", "ParameterServerStrategy")
# Every task runs a script that names one of these, whatever else it names.
_NOT_COORDINATING = {"Estimator", "RunConfig", "train_and_evaluate", "MultiWorkerMirroredStrategy"}


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """`flags`: the classic flags and those named `JOB_hosts` that it defines, as it spells them
    (`--job_name`, `--job-name`). `reads_tf_config`: it names TF_CONFIG or its resolver.
    `may_read_role`: it does that, or calls something in TensorFlow that does, or reads psclust's
    variables. `builds_cluster`: it names ClusterSpec or Server. `hides`: a file or folder beside it
    with the name of a module that TensorFlow imports. `names_keras`: its fork server should have
    imported Keras. `coordinates`: its chief alone runs code, for all workers. `starts_servers`: it
    makes TensorFlow servers itself."""

    flags: tuple[str, ...] = ()
    reads_tf_config: bool = False
    may_read_role: bool = False
    builds_cluster: bool = False
    hides: str | None = None
    names_keras: bool = False
    coordinates: bool = False
    starts_servers: bool = False


def read_facts(sources: Iterable[str]) -> ScriptFacts:
    """The facts of a program with these sources, of its script and of imported modules. A source
    that does not parse adds none."""
    sources = list(sources)
    modules = [_nodes(source) for source in sources]
    flags: dict[str, str] = {}
    for spelled in (flag for module in modules for flag in _defined(module)):
        flags.setdefault(flag_name(spelled), spelled if spelled.startswith("-") else f"--{spelled}")
    nodes = [node for module in modules for node in module]
    names = {name for node in nodes for name in _names(node)}
    reads = bool(names & _READERS) or _reads_variable(nodes)
    every_task_runs_it = names & _NOT_COORDINATING or (
        "tensorflow.compat.v1" in names and "ClusterCoordinator" not in names
    )
    starts_servers = any(map(_is_server, nodes))
    # A script that makes a cluster of its own gives that to its strategy.
    own_cluster = starts_servers and _OWN_RESOLVER in names
    may_read = _MAY_READ - {"ParameterServerStrategy"} if own_cluster else _MAY_READ
    return ScriptFacts(
        tuple(flags[name] for name in sorted(flags, key=_position)),
        reads_tf_config=reads,
        may_read_role=reads
        or bool(names & may_read)
        or any(text.startswith("PSCLUST_") for node in nodes for text in _text(node)),
        builds_cluster=bool(names & _CLUSTER),
        names_keras=any(re.search(r"\bkeras\b", source) for source in sources),
        coordinates=not every_task_runs_it and any(map(_coordinates, nodes)),
        starts_servers=starts_servers,
    )


def parsed(source: str) -> ast.Module | None:
    """None for a source that does not parse."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _nodes(source: str) -> list[ast.AST]:
    tree = parsed(source)
    return [] if tree is None else list(ast.walk(tree))


def psclust_programs(source: str) -> list[str]:
    """Names that a module's own statements bind to a `psclust.Program(...)`."""
    tree = parsed(source)
    return [
        target.id
        for node in (tree.body if tree is not None else ())
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and _called(node.value) == "Program"
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _position(name: str) -> int:
    """Addresses first, those of ps and workers before others."""
    classic = list(CLASSIC_FLAGS)
    return 2 * classic.index(name) if name in classic else 3


def is_role_flag(name: str) -> bool:
    """Whether a script learns its role by a flag of this name."""
    return name in CLASSIC_FLAGS or is_hosts_flag(name)


def is_hosts_flag(name: str) -> bool:
    return _JOB_HOSTS.fullmatch(name) is not None


def flag_name(spelled: str) -> str:
    """`job_name` of `--job-name`, also of `--job-name=ps`."""
    return spelled.lstrip("-").partition("=")[0].replace("-", "_")


def imported_modules(source: str) -> list[str]:
    """Dotted names of the modules a source may import: `a.b` and `a.b.c` for `from a.b import c`;
    relative ones begin with dots."""
    found: list[str] = []
    for node in _nodes(source):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += [
                module,
                *(
                    f"{module}{'' if module.endswith('.') else '.'}{alias.name}"
                    for alias in node.names
                    if alias.name != "*"
                ),
            ]
    return list(dict.fromkeys(name for name in found if name.strip(".")))


def _defined(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """The flags for its role that the source defines, as it spells them: named in a call that
    defines a flag, in the values of a loop around such a call, or as an attribute of absl's FLAGS,
    which some module must define."""
    constants = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        texts: Iterable[str] = ()
        if isinstance(node, ast.Call):
            defines = _DEFINES.search(_called(node)) is not None
            texts = [
                text
                for argument in node.args[:2]
                for text in _text(argument)
                if defines or text.startswith("--")
            ]
        elif isinstance(node, (ast.For, ast.AsyncFor)) and any(
            _is_definition(inner) for inner in ast.walk(node)
        ):
            texts = _texts_in(node.iter, constants)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and _is_definition(node.elt):
            texts = [text for part in node.generators for text in _texts_in(part.iter, constants)]
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "FLAGS"
        ):
            texts = [node.attr]
        yield from (text for text in texts if "=" not in text and is_role_flag(flag_name(text)))


def _is_definition(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _DEFINES.search(_called(node)) is not None


def _called(node: ast.Call) -> str:
    """The last name of the called function: `DEFINE_string` of `tf.app.flags.DEFINE_string`."""
    return next(iter(_names(node.func)), "")


def _texts_in(node: ast.expr, constants: Mapping[str, ast.expr]) -> list[str]:
    """String constants in an expression, and in the variables that it names."""
    parts = [
        node,
        *(
            constants[inner.id]
            for inner in ast.walk(node)
            if isinstance(inner, ast.Name) and inner.id in constants
        ),
    ]
    return [text for part in parts for inner in ast.walk(part) for text in _text(inner)]


def _coordinates(node: ast.AST) -> bool:
    """Whether it names the coordinator or its strategy; TensorFlow 1's strategy of the same name
    runs in every task."""
    if isinstance(node, ast.Attribute) and node.attr in COORDINATING:
        return ".v1." not in ast.unparse(node)
    return bool(set(_names(node)) & set(COORDINATING))


def _is_server(node: ast.AST) -> bool:
    """`tf.distribute.Server`, `tf.train.Server`, or an import of it."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").startswith("tensorflow") and any(
            alias.name == "Server" for alias in node.names
        )
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "Server"
        and bool({"distribute", "train"} & set(_names(node.value)))
    )


def _reads_variable(nodes: Sequence[ast.AST]) -> bool:
    """Whether TF_CONFIG is named other than to set it."""
    written = {
        id(target.slice)
        for node in nodes
        if isinstance(node, (ast.Assign, ast.Delete))
        for target in node.targets
        if isinstance(target, ast.Subscript)
    }
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    dropped = {
        id(argument)
        for node in nodes
        if isinstance(node, ast.Call) and _called(node) in ("pop", "putenv")
        for argument in node.args
    }
    return any(
        "TF_CONFIG" in _text(node) for node in nodes if id(node) not in written | docs | dropped
    )


def _names(node: ast.AST) -> list[str]:
    """The last name of an expression, or the names that an import binds."""
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.name for alias in node.names]
    return [node.id] if isinstance(node, ast.Name) else []


def _text(node: ast.AST) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
