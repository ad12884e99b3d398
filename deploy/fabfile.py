"""Install psclust on hosts: `fab -r deploy -H a,b,node[01-04] install`, `update`, `remove`; `fab -r
deploy --list`.

Hosts are reached as `psclust up` reaches them, in parallel, and all failures are reported together.
`on-host` does the work on each host.
"""

from __future__ import annotations

import io
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import invoke
from fabric import Executor, task

from psclust.errors import HostError, PsclustError, StartError, UsageError
from psclust.reach.connections import Connections
from psclust.reach.doctor.finding import refuse_problems
from psclust.reach.doctor.quick_checks import quick
from psclust.reach.fan_out import on_each
from psclust.reach.python.host_facts import HostFacts, gather_facts
from psclust.reach.run_to_end import run
from psclust.reach.ways import connect
from psclust.rundir.log_tail import last_line
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_lists import parse_hosts

_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_PATH = "~/.local/share/psclust"
_UNPACK = (
    'folder=$(mktemp -d) && trap \'rm -rf "$folder"\' EXIT && tar -xC "$folder" && cd "$folder" '
    '&& sh ./on-host "$@"'
)
_INSTALL_S = 1800.0  # TensorFlow and its requirements are more than a gigabyte
_HELP = {
    "path": f"the folder on the hosts (default: {_PATH})",
    "python": "the host's Python to run with, whose packages are visible too (default: python3)",
    "source": (
        "a wheel, or a requirement for pip such as psclust==0.1.0 (default: "
        "a wheel of this checkout)"
    ),
    "pip": (
        "options for pip on the hosts, "
        "such as '--index-url https://...' or '--no-index --find-links /shared/wheels'"
    ),
    "standing": "also install a standing agent as a service of the user's systemd (docs/deploy.md)",
    "purge": "also remove what runs left on the hosts: shipped folders, logs",
}


class AllAtOnce(Executor):  # type: ignore[misc]
    """Calls a task once, for all hosts of -H. Fabric would run it on one host after the other and
    stop at the first failure."""

    def expand_calls(self, calls: list[Any], apply_hosts: bool = True) -> list[Any]:
        flags = self.core[0].args
        for name in ("identity", "ssh-config", "connect-timeout"):
            if flags[name].value:
                raise invoke.Exit(
                    f"--{name}: hosts are reached as `psclust up` reaches them; "
                    "set it in ~/.ssh/config.",
                    UsageError.exit_code,
                )
        self.config.psclust_hosts = flags.hosts.value or ""
        return list(invoke.Executor.expand_calls(self, calls))


def _help(*names: str) -> dict[str, str]:
    return {name: _HELP[name] for name in names}


@task(autoprint=True, help=_help("path", "python", "source", "pip", "standing"))
def install(
    context: Any,
    path: str = _PATH,
    python: str = "python3",
    source: str = "",
    pip: str = "",
    standing: bool = False,
) -> str:
    """Install or repair psclust; pip adds requirements that the hosts' Python lacks, TensorFlow
    included."""
    with _hosts(context) as connections, _packed(source) as (files, what):
        _on_each(connections, files, "install", path, python, what, *shlex.split(pip))
        if standing:
            unit = _HERE / "psclust-agent.service"
            _on_each(connections, [unit], "standing", path, f"./{unit.name}")
        return _found(connections, path)


@task(autoprint=True, help=_help("path", "source", "pip"))
def update(context: Any, path: str = _PATH, source: str = "", pip: str = "") -> str:
    """Update psclust on hosts that have it, to this checkout or to --source."""
    with _hosts(context) as connections, _packed(source) as (files, what):
        _on_each(connections, files, "update", path, what, *shlex.split(pip))
        return _found(connections, path)


@task(help=_help("path", "purge"))
def remove(context: Any, path: str = _PATH, purge: bool = False) -> None:
    """Remove psclust and its standing agent."""
    with _hosts(context) as connections:
        _on_each(connections, [], "purge" if purge else "remove", path)


@contextmanager
def _hosts(context: Any) -> Iterator[Connections]:
    """Log in to all hosts of -H. A PsclustError ends `fab` with its message and exit code."""
    try:
        if not context.psclust_hosts:
            raise UsageError("no hosts are given; write fab -r deploy -H a,b install.")
        with connect(
            ClusterFile(name="deploy"), parse_hosts(context.psclust_hosts, where="-H")
        ) as connections:
            yield connections
    except PsclustError as error:
        raise invoke.Exit(str(error), error.exit_code) from None


@contextmanager
def _packed(source: str) -> Iterator[tuple[Sequence[Path], str]]:
    """The files to send to a host, and the argument of its `pip install`."""
    with TemporaryDirectory() as folder:
        if source and not Path(source).is_file():
            yield [], source
        else:
            wheel = Path(source) if source else _build(Path(folder))
            yield [wheel], f"./{wheel.name}"


def _build(folder: Path) -> Path:
    """Build a wheel from a copy of this checkout, so that leftovers of earlier builds do not get
    into it. Raises StartError."""
    tree = folder / "tree"
    shutil.copytree(
        _ROOT / "psclust", tree / "psclust", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(_ROOT / name, tree)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(tree),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise StartError(
            f"no wheel can be made of {_ROOT}: {last_line(done.stderr)}. Name one with --source."
        )
    return next(folder.glob("psclust-*.whl"))


def _on_each(connections: Connections, files: Sequence[Path], *arguments: str) -> None:
    """Run `on-host`, with `files` in the same folder, on all hosts in parallel. Raises StartError
    with a line for each failed host."""
    archive = _archive([_HERE / "on-host", *files])
    command = shlex.join(["sh", "-c", _UNPACK, "on-host", *arguments])

    def work(host: str) -> None:
        result = run(connections, host, command, stdin=archive, timeout_s=_INSTALL_S)
        if result.code != 0:
            said = last_line(result.stderr.decode(errors="replace"))
            raise HostError(f"{host}: {said or f'on-host ended with {result.code}'}")

    on_each(connections.names, work)


def _archive(files: Sequence[Path]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for file in files:
            archive.add(file, file.name)
    return stream.getvalue()


def _found(connections: Connections, path: str) -> str:
    """The versions on each host, a line each. Raises StartError if a cluster could not run
    there."""
    facts = gather_facts(connections, f"{path}/bin/python")
    refuse_problems(quick(facts.values()))
    return "\n".join(map(_shown, facts.values()))


def _shown(facts: HostFacts) -> str:
    return (
        f"{facts.host}: psclust {facts.psclust_version}, TensorFlow {facts.tensorflow}, "
        f"Python {facts.version} ({facts.executable})"
    )
