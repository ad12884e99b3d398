"""Every command of the pages is typed, those of blocks in their order, in a folder that has what
the page speaks of; and ends well."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import PAGES, ROOT, blocks, code, commands
from page_scripts import script_for

from beds.command import CommandBed
from beds.host_fixtures import hosts_of_file
from beds.hosts import HostBed
from beds.slurm import SlurmBed, slurm_bed
from psclust.testing.wait import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.process,
    pytest.mark.tensorflow,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="hosts with names of their own, and Slurm's daemons, need root"
    ),
]

# What a page leaves open.
_MEANT = {
    "cluster_specs/NAME.yaml": "cluster_specs/wide-deep.yaml",
    "VERB": "up",
    "COMMAND": "hostname",
    "IMAGE": "registry.example.com/me/it:1",
}
_ON_SLURM, _TUTORIAL = "docs/slurm.md", "docs/tutorial.md"
_BEFORE = {"docs/report.md": "psclust up -f cluster_specs/digits.yaml"}
# For a live run of some kind, typed in tests/launch/test_scale.py; or for programs of benchmarks.
_NOT_TYPED = re.compile(
    r"psclust ((scale|rebalance) (worker|ps|-)|restart worker:3|up -f hosts\.yaml)"
)
# Verbs that are about a run.
_OF_A_RUN = {"ps", "why", "down", "top"}


def block(page: str, first: str) -> str:
    """The block of a page that begins with the line `first`."""
    return next(piece.text for piece in blocks(page) if piece.text.startswith(f"{first}\n"))


def typed(page: str) -> list[str]:
    """The commands of a page: those of its blocks, and those within its text that give a verb
    something to do."""
    in_text = [
        command
        for piece in code(page)
        for command in commands(piece)
        if len(command.split()) > 2 and "..." not in command
    ]
    found = [command for piece in blocks(page) for command in commands(piece)]
    found += [
        command
        for command in in_text
        if not re.search(r" (TASK|NAME)$|psclust task|psclust\.train$", command)
        and not _NOT_TYPED.match(command)
    ]
    # Those for pods are typed in tests/pods, where there is a Kubernetes cluster.
    return [command for command in dict.fromkeys(found) if "--kubernetes" not in command]


def pages() -> Iterator[tuple[str, list[str]]]:
    """Each page with its commands, those aside that an earlier page has."""
    seen: set[str] = set()
    for page in PAGES:
        new = [command for command in typed(page) if page == _TUTORIAL or command not in seen]
        seen |= set(new)
        if new and page != _ON_SLURM:
            yield page, new


hosts = hosts_of_file(list("abcde"))


@pytest.fixture
def reader(bed: CommandBed, hosts: HostBed) -> Iterator[CommandBed]:
    """Somebody who has the files of the pages, and whose `ssh` knows the hosts a to e."""
    bed.environ |= {"HOME": str(hosts.home), "PYTHONPATH": str(bed.folder)}
    (bed.folder / "cluster_specs").symlink_to(ROOT / "cluster_specs")
    house = next(
        piece for piece in blocks("docs/training.md") if piece.text.startswith("# house.py")
    )
    for name in ("house", "module", "mytraining"):
        bed.write(f"{name}.py", house.python)
    growing = next(
        piece for piece in blocks("docs/elastic.md") if piece.text.startswith("# growing.py")
    )
    bed.write("growing.py", growing.python)
    bed.write("cluster.yaml", block("docs/kubernetes.md", "name: mnist"))
    bed.write("any-command", "#!/bin/sh\necho $1\n").chmod(0o755)
    yield bed
    bed.run("down", "--all")  # a page may leave a run that goes on


def words_of(command: str, home: str) -> list[str]:
    for placeholder, word in _MEANT.items():
        command = command.replace(placeholder, word)
    words = shlex.split(command.partition(" | ")[0].partition("  #")[0])
    return [home + word[1:] if word.startswith("~/") else word for word in words]


def type_in(reader: CommandBed, command: str) -> None:
    reader.write("train.py", script_for(command))
    words = words_of(command, reader.environ["HOME"])
    if words[0] == "python":
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=reader.folder,
            env=reader.environment(),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return
    program = [
        word for word in words[2:] if ":" in word or word.endswith((".py", ".yaml")) or word == "--"
    ]
    if words[1] == "up" and not program and "-d" not in words:
        serve(reader, command, words[1:])
        return
    if words[1] in _OF_A_RUN and all(word.startswith("-") for word in words[2:]):
        reader.done("up", "-d", "-H", "a,b", "--ps", "1", "--workers", "1")
    reader.fails(0, *words[1:])


def serve(reader: CommandBed, command: str, words: list[str]) -> None:
    """A cluster without a program ends when it is ended."""
    up = reader.start(*words)
    wait_until(lambda: " is up" in up.output or up.process.poll() is not None, what=command)
    assert reader.run("down")[0] == 0, up.output
    assert up.wait() == 143, up.output


@pytest.mark.parametrize(
    ("page", "typed_there"),
    list(pages()),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_page_is_typed(page: str, typed_there: list[str], reader: CommandBed) -> None:
    for command in [*filter(None, [_BEFORE.get(page)]), *typed_there]:
        type_in(reader, command)


@pytest.mark.parametrize(
    "piece", [piece for piece in blocks("docs/python.md") if piece.is_python], ids=str
)
def test_python_of_the_page_runs(piece, reader: CommandBed) -> None:  # type: ignore[no-untyped-def]
    reader.write("train.py", script_for(""))
    # The cluster file of that page is any; the one of Kubernetes asks for GPUs.
    reader.write("cluster.yaml", "jobs: {ps: 1, worker: 2}\nprogram: mytraining:program\n")
    if piece.first.startswith("def test"):
        reader.write(
            "test_it.py",
            "def train(spec):\n    assert sorted(spec) == ['ps', 'worker']\n"
            f"    return 0.0\n\n\n{piece.text}\n",
        )
        # Without the plugin that psclust's own tests leave out.
        options = shlex.split("-q -p no:cacheprovider -p no:kmock test_it.py")
        command = [sys.executable, "-m", "pytest", *options]
    else:
        reader.write(
            "it.py",
            f"import psclust\nfrom psclust.examples.digits import program\n\n{piece.text}\n",
        )
        command = [sys.executable, "it.py"]
    done = subprocess.run(
        command, cwd=reader.folder, env=reader.environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmBed]:
    with slurm_bed(tmp_path_factory.mktemp("bed") / "slurm", 4, isolated=True, gpus=2) as slurm:
        yield slurm


@pytest.fixture
def login(bed: CommandBed, slurm: SlurmBed, tmp_path: Path) -> CommandBed:
    """Somebody on a login node whose `~/venv` has psclust."""
    home = tmp_path / "home"
    (home / "venv" / "bin").mkdir(parents=True)
    (home / "venv" / "bin" / "activate").write_text(
        f"export PATH={Path(sys.executable).parent}:$PATH\n", encoding="utf-8"
    )
    bed.environ |= {**slurm.environ, "HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return bed


def test_the_page_of_slurm_is_typed(login: CommandBed, slurm: SlurmBed) -> None:
    login.write("cluster.yaml", block(_ON_SLURM, "name: digits"))
    for command in typed(_ON_SLURM)[:3]:
        type_in(login, command)
    wait_until(lambda: not slurm.jobs(), what="the end of the job")
    assert "evaluation: accuracy" in login.run("logs", "digits")[1]


def test_its_batch_script_runs(login: CommandBed, slurm: SlurmBed) -> None:
    login.write("job.sh", block(_ON_SLURM, "#!/bin/bash"))
    login.write("cluster.yaml", block(_ON_SLURM, "hosts: slurm"))
    login.command = ("sbatch", "--wait", "--quiet", "--output=said")
    login.fails(0, "job.sh")
    assert re.search(r"evaluation: accuracy", (login.folder / "said").read_text())
