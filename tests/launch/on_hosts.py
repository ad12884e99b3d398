"""What tests on several hosts share: cluster files for them, and looking for what is left there."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from beds.command import CommandBed
from beds.hosts import HostBed

# Of a test that cuts hosts off, or needs them to have processes, ports and files of their own.
isolated = pytest.mark.skipif(
    os.geteuid() != 0, reason="hosts of their own are namespaces, which need root"
)

PATIENT = "import time; print('up', flush=True); time.sleep(1000)\n"


def left(hosts: HostBed) -> list[str]:
    """Everything that runs on the hosts beside what always does."""
    return [f"{host.name}: {program}" for host in hosts.hosts for program in host.programs()]


def write_file(bed: CommandBed, bed_hosts: HostBed, script: str, **keys: object) -> None:
    """`script` as train.py, and a cluster file that runs it as four workers on the hosts, `keys`
    aside."""
    bed.write("train.py", script)
    data = {
        "hosts": [host.name for host in bed_hosts.hosts],
        "program": "train.py",
        "preload": False,
        "jobs": {"worker": 4},
        **keys,
    }
    bed.write("psclust.yaml", json.dumps(data))


def make_environment(folder: Path, *first: str) -> None:
    """A virtual environment that has what this interpreter has; `first`: what its path file says
    before that, a folder or an import."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "all.pth").write_text("\n".join([*first, *site.getsitepackages()]) + "\n")
