"""What the command imports: help must be quick, and no verb may pay for TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beds.command import CommandBed

ROOT = Path(__file__).parents[2]
HEAVY = ("tensorflow", "numpy", "grpc", "pydantic", "yaml", "fabric", "psutil")


def imported(bed: CommandBed, *args: str) -> set[str]:
    """The modules a verb imports, whatever its exit code."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "psclust", *args],
        cwd=bed.folder,
        env=bed.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return {
        line.rpartition("|")[2].strip()
        for line in run.stderr.splitlines()
        if line.startswith("import time:")
    }


@pytest.mark.process
@pytest.mark.parametrize(
    ("args", "most"), [("--help", 250), ("--version", 250), ("up --help", 350)]
)
def test_help_and_version_import_next_to_nothing(bed: CommandBed, args: str, most: int) -> None:
    modules = imported(bed, *args.split())
    assert not {name.partition(".")[0] for name in modules} & set(HEAVY)
    assert len(modules) < most


@pytest.mark.process
@pytest.mark.parametrize("verb", ["ps", "clusters", "logs"])
def test_verbs_that_only_look_read_files_and_import_what_that_takes(
    bed: CommandBed, verb: str
) -> None:
    modules = imported(bed, verb)
    assert "psclust.cli.run_selection" in modules
    assert not {name.partition(".")[0] for name in modules} & set(HEAVY)


@pytest.mark.process
@pytest.mark.parametrize(
    "args",
    [
        "plan --ps 1",
        "ps",
        "logs",
        "down",
        "schema",
        "init",
        "exec",
        "doctor",
        "manifest --image a",
        "task ps",
        "up -d --ps 1",
    ],
)
def test_no_verb_imports_tensorflow(bed: CommandBed, args: str) -> None:
    modules = imported(bed, *args.split())
    assert not {
        name for name in modules if name.partition(".")[0] in ("tensorflow", "numpy", "keras")
    }
    assert "psclust.cli.main" in modules
    if args.startswith("up"):
        bed.done("down")


@pytest.mark.parametrize(
    ("imports", "needed", "absent"),
    [
        # As soon as anything is asked of the last two, they and much else are there.
        (
            "psclust.agent.process, psclust.agent.agent_service, psclust.agent.agent, "
            "psclust.transport.local_transport",
            "grpc",
            "psutil click pydantic yaml fabric paramiko cryptography tensorflow "
            "psclust.supervise.supervisor asyncio. grpc.aio.",
        ),
        ("psclust.cli.starting", "psclust.control.supervisor_process", "grpc"),
        (
            "psclust.launch.start_run, psclust.control.supervisor_process, "
            "psclust.control.supervisor_service",
            "psclust.control.remote_transport",
            "prometheus_client",
        ),
    ],
    ids=["an agent neither plans nor logs in", "before `up` forks", "a run without metrics"],
)
def test_what_is_not_loaded_too_soon(imports: str, needed: str, absent: str) -> None:
    """absent: modules, or with a dot at the end what is below one."""
    modules = loaded(f"import sys, {imports}; print(*sys.modules)")
    assert needed in modules
    assert not modules & set(absent.split())
    below = tuple(name for name in absent.split() if name.endswith("."))
    assert not [name for name in modules if below and name.startswith(below)]


def test_importing_psclust_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import psclust; print(*(set(sys.modules) - before))"
    )
    assert loaded(code, "-S", env={"PYTHONPATH": str(ROOT)}) == {"__future__", "psclust"}


def loaded(code: str, *options: str, env: dict[str, str] | None = None) -> set[str]:
    """The words that the code prints, in a Python of its own."""
    run = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, env=env, check=True
    )
    return set(run.stdout.split())
