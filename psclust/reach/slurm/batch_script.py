"""The script for sbatch, from a cluster file. Pure."""

from __future__ import annotations

import math
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from psclust.errors import UsageError
from psclust.spec.cluster import Host, Task
from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.found_hosts import FoundHosts
from psclust.spec.host_keys import Slurm
from psclust.spec.key_types import ARRAY_TASK
from psclust.spec.plurals import counted

_SAVE_S = 60  # to write a checkpoint, before the programs have `deadlines.finish` to end
_T = TypeVar("_T")
_MOST_TASKS = 10_000  # of an array


@dataclass(frozen=True, slots=True)
class _Group:
    """The nodes of one kind. tasks, gpus: of each node."""

    nodes: int
    tasks: int
    gpus: int
    partition: str | None


def nodes_of(file: ClusterText) -> FoundHosts:
    """See `BatchSystem.hosts_of`: node1, node2, ...; het-0.1, het-0.2, ... in a group."""
    count = _count_groups(file)
    counts = [_nth(file.slurm.nodes, number) for number in range(count)]
    groups = {
        f"het-{number}": [f"het-{number}.{each}" for each in range(1, nodes + 1)]
        for number, nodes in enumerate(counts)
    }
    names = (
        [name for group in groups.values() for name in group]
        if count > 1
        else [f"node{each}" for each in range(1, counts[0] + 1)]
    )
    text = f"hosts: the {counted(len(names), 'node')} of a Slurm job"
    return FoundHosts("slurm", [Host(name) for name in names], text, groups if count > 1 else {})


def _count_groups(file: ClusterText) -> int:
    """As many as the lists have values; without lists, as jobs name groups."""
    slurm = file.slurm
    lists = [
        value for value in (slurm.partition, slurm.nodes, slurm.gpus) if isinstance(value, list)
    ]
    if lists:
        return min(map(len, lists))
    named = (
        re.fullmatch(r"het-(\d{1,2})", host)
        for job in file.jobs.values()
        for host in job.hosts or ()
    )
    return max((int(match[1]) + 1 for match in named if match), default=1)


def render_script(
    file: ClusterFile,
    hosts: Mapping[Task, Host],
    command: Sequence[str],
    folder: Path,
    output: Path,
) -> str:
    """See `BatchSystem.script`; `file` has the nodes of `nodes_of`."""
    lines = ["#!/bin/bash"]
    for number, group in enumerate(_groups(file, hosts)):
        lines += ["#SBATCH hetjob"] if number else []
        lines += [
            f"#SBATCH {' '.join(options)}"
            for options in _options(file, group, folder, output, first=number == 0)
        ]
    return "\n".join([*lines, *file.slurm.setup, f"exec {_in_shell(command)}"]) + "\n"


def array_tasks(slurm: Slurm) -> list[str]:
    """See `BatchSystem.array_tasks`: `--array=0-6:2,9%2` gives 0, 2, 4, 6, 9."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-a", "--array", nargs="?")
    text = parser.parse_known_args(slurm.sbatch)[0].array
    if text is None:
        return []
    found: dict[int, None] = {}
    for part in text.partition("%")[0].split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part)
        if match is None:
            raise UsageError(
                f"slurm.sbatch: --array={text}: found no list of numbers; "
                "write it as --array=0-3 or --array=1,3,5."
            )
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1, max(1, int(match[3] or 1)))
        if len(found) + len(numbers) > _MOST_TASKS:
            raise UsageError(
                f"slurm.sbatch: --array={text}: these are more than {_MOST_TASKS} runs; "
                "write a shorter list."
            )
        found |= dict.fromkeys(numbers)
    return [str(number) for number in sorted(found)]


def _groups(file: ClusterFile, hosts: Mapping[Task, Host]) -> list[_Group]:
    """As small as the tasks allow where they are placed: `up` places them in the same way in the
    job."""
    slurm = file.slurm
    tasks: dict[str, int] = {}
    gpus: dict[str, int] = {}
    for task, host in hosts.items():
        tasks[host.name] = tasks.get(host.name, 0) + 1
        gpus[host.name] = gpus.get(host.name, 0) + (file.all_jobs[task.job].gpus or 0)
    groups: dict[str, list[Host]] = {}
    for host in file.hosts:
        groups.setdefault(host.name.partition(".")[0] if "." in host.name else "", []).append(host)
    found = []
    for number, here in enumerate(groups.values()):
        wanted = (
            max(gpus.get(host.name, 0) for host in here)
            if slurm.gpus is None
            else _nth(slurm.gpus, number)
        )
        most = max(1, *(tasks.get(host.name, 0) for host in here))
        found.append(
            _Group(
                len(here), most, wanted, _nth(slurm.partition, number) if slurm.partition else None
            )
        )
    return found


def _options(
    file: ClusterFile, group: _Group, folder: Path, output: Path, *, first: bool
) -> Iterator[list[str]]:
    """One line each."""
    slurm = file.slurm
    if first:
        name = file.name.replace(ARRAY_TASK, "").strip("-._") or "psclust"
        yield [
            f"--job-name={shlex.quote(name)}",
            f"--chdir={_quoted(folder)}",
            f"--output={_quoted(output, percent=True)}",
        ]
    queue = {"partition": group.partition, "account": slurm.account, "time": slurm.time}
    if any(queue.values()):
        yield [f"--{key}={shlex.quote(value)}" for key, value in queue.items() if value]
    machine = [f"--nodes={group.nodes}", f"--ntasks-per-node={group.tasks}"]
    yield [*machine, *([f"--gpus-per-node={group.gpus}"] if group.gpus else [])]
    early = _SAVE_S + math.ceil(file.deadlines.finish)
    yield ["--no-kill", "--requeue", "--open-mode=append", f"--signal=B:USR1@{early}"]
    if slurm.sbatch:
        yield [shlex.join(slurm.sbatch)]


def _quoted(path: Path, *, percent: bool = False) -> str:
    """percent: sbatch fills in `%a`."""
    text = str(path)
    if percent:
        text = text.replace("%", "%%").replace(ARRAY_TASK, "%a")
    return shlex.quote(text) if re.search(r"[^\w@%+=:,./-]", text) else text


def _in_shell(command: Sequence[str]) -> str:
    """{array_task} is the shell's variable."""
    return " ".join(
        '"$SLURM_ARRAY_TASK_ID"'.join(
            shlex.quote(part) if part else "" for part in word.split(ARRAY_TASK)
        )
        for word in command
    )


def _nth(value: _T | list[_T], number: int) -> _T:
    """Of a list the value for a group; any other value is for all groups."""
    return value[number] if isinstance(value, list) else value
