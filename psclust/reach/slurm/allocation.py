"""The Slurm allocation that this process is in, from the environment that salloc and sbatch set."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from psclust.errors import HostError, UsageError
from psclust.reach.slurm.slurm_command import call
from psclust.spec.cluster import Host
from psclust.spec.found_hosts import FoundHosts
from psclust.spec.plurals import counted, some_of

# Variables that srun takes its options from describe how sbatch or srun started this process, and
# not the step that is to be started.
_KEPT = (
    "SLURM_CONF",
    "SLURM_JOB_",
    "SLURM_ARRAY_",
    "SLURM_SUBMIT_",
    "SLURM_CLUSTER",
    "SLURM_RESTART_COUNT",
    "SLURM_JWT",
)
_INSTEAD = "or write `hosts: local` (-H local) to use this machine alone."


@dataclass(frozen=True, slots=True)
class Node:
    """cpus: those of the allocation. group: the number of its heterogeneous group, None if there is
    only one group."""

    name: str
    cpus: int
    group: int | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """job: its id. nodes: as Slurm lists them."""

    job: str
    nodes: Sequence[Node]

    def node(self, name: str) -> Node:
        """Raises HostError."""
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            names = some_of([node.name for node in self.nodes])
            raise HostError(
                f"{name}: not in Slurm job {self.job}, which has {names}. Name nodes of the job."
            )
        return found

    def found_hosts(self) -> FoundHosts:
        """A slot for each CPU."""
        groups: dict[str, list[str]] = {}
        for node in self.nodes:
            if node.group is not None:
                groups.setdefault(f"het-{node.group}", []).append(node.name)
        by_group = [f"{group}: {some_of(members)}" for group, members in groups.items()]
        names = "; ".join(by_group) or some_of([node.name for node in self.nodes])
        slots = counted(sum(node.cpus for node in self.nodes), "slot")
        text = (
            f"hosts: Slurm job {self.job}, {counted(len(self.nodes), 'node')} ({names}), {slots}; "
            "`-H local` uses this machine alone"
        )
        return FoundHosts(
            "slurm", [Host(node.name, node.cpus) for node in self.nodes], text, groups
        )


def find_allocation(environ: Mapping[str, str], *, asked: bool) -> Allocation | None:
    """None outside of an allocation; `asked`: that is a mistake. Raises UsageError, with what to
    do, where the allocation cannot be used."""
    job = environ.get("SLURM_JOB_ID")
    if job is None:
        if asked:
            raise UsageError(
                "slurm: this is no allocation; submit a job with `psclust up --slurm`, "
                "or call psclust in a script for sbatch, or in the shell of salloc."
            )
        return None
    tasks = environ.get("SLURM_STEP_NUM_TASKS", "1")
    if tasks != "1":
        number = environ.get("SLURM_PROCID", "?")
        raise UsageError(
            f"srun started this psclust as task {number} of {tasks}, "
            "and each would start the cluster. Call psclust once, without srun, "
            f"in the batch script or in the shell of salloc, {_INSTEAD}"
        )
    for command in ("srun", "scontrol"):
        if shutil.which(command, path=environ.get("PATH")) is None:
            raise UsageError(
                f"this is Slurm job {job}, but there is no `{command}` on the PATH; "
                f"in a container, perhaps. Call psclust where Slurm's commands are, {_INSTEAD}"
            )
    return Allocation(job, list(_nodes(environ)))


def srun_environment(environ: Mapping[str, str], job: str) -> dict[str, str]:
    """The environment of an srun that obeys its command line alone."""
    of_this = [
        name
        for name in environ
        if name.startswith("SLURM_")
        and (not name.startswith(_KEPT) or "_GROUP_" in name or name == "SLURM_JOB_NUM_NODES")
    ]
    return {name: environ[name] for name in environ.keys() - of_this} | {"SLURM_JOB_ID": job}


def node_records(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Node -> what Slurm knows of it, such as NodeAddr and State. Raises UsageError."""
    command = ["scontrol", "--oneliner", "show", "node", ",".join(names)]
    lines = call(command, environ).splitlines()
    records = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines if line.strip()]
    return {record.get("NodeName", ""): record for record in records}


def job_record(job: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Slurm's record of a job, with keys such as JobState. Raises UsageError."""
    text = call(["scontrol", "--oneliner", "show", "job", job], environ)
    return dict(re.findall(r"(\w+)=(\S*)", text))


def _nodes(environ: Mapping[str, str]) -> Iterator[Node]:
    size = environ.get("SLURM_HET_SIZE")
    seen: set[str] = set()
    for group in range(int(size)) if size is not None else (None,):
        end = f"_HET_GROUP_{group}" if group is not None else ""
        try:
            names, cpus = (
                environ[f"SLURM_JOB_NODELIST{end}"],
                environ[f"SLURM_JOB_CPUS_PER_NODE{end}"],
            )
        except KeyError as error:
            raise UsageError(
                f"this is Slurm job {environ['SLURM_JOB_ID']}, "
                f"but {error.args[0]} is not set; {_INSTEAD}"
            ) from None
        hosts = call(["scontrol", "show", "hostnames", names], environ).split()
        for name, count in zip(hosts, expand_counts(cpus), strict=True):
            # Groups may share a node; it then belongs to the first.
            if name not in seen:
                seen.add(name)
                yield Node(name, count, group)


def expand_counts(text: str) -> list[int]:
    """`4(x2),2` as 4, 4, 2."""
    found = (re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part) for part in text.split(","))
    return list(
        chain.from_iterable(repeat(int(match[1]), int(match[2] or 1)) for match in found if match)
    )
