"""What the user's own arguments and variables hold of the role of a job's tasks, so that psclust
gives only the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from psclust.plan.job_plan import JobPlan
from psclust.plan.script_facts import flag_name, is_hosts_flag, is_role_flag
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.placeholders import Placeholder, placeholders, texts_of_job

# A role in a cluster has three parts. A script that learns its addresses nowhere may have them
# written in.
Part = Literal["job_name", "task_index", "addresses"]
WHO: frozenset[Part] = frozenset({"job_name", "task_index"})
EVERY_PART: frozenset[Part] = WHO | {"addresses"}
# Name of a flag, or of a placeholder -> its part.
_PART: Mapping[str, Part] = {"job_name": "job_name", "task_index": "task_index"}


@dataclass(frozen=True, slots=True)
class GivenRole:
    """`parts`: those that placeholders, or a TF_CONFIG of the user's, hold; `perhaps`: those that
    words of single jobs or tasks may hold; `flags`: names of the role's flags that the user writes;
    `needed`: the parts without which two tasks that run the program would take the same role;
    `without_addresses`: the jobs that run it, are in the cluster and have no `addresses`."""

    parts: frozenset[Part]
    perhaps: frozenset[Part]
    flags: frozenset[str]
    needed: tuple[Part, ...]
    without_addresses: tuple[str, ...]

    @property
    def who(self) -> frozenset[Part]:
        return self.parts & WHO


def given_role(file: ClusterFile, entry: JobPlan, jobs: Sequence[JobPlan]) -> GivenRole:
    """`jobs`: all of the plan, `entry` among them."""
    texts = [text for _, text in texts_of_job(file, entry.name, entry.job)]
    names = {
        name for env in (file.env, entry.job.env, *entry.job.task_env.values()) for name in env
    }
    same = [each for each in jobs if each.program == entry.program]
    held = frozenset(
        part for text in texts for found in placeholders(text) for part in _parts(found)
    )
    return GivenRole(
        parts=EVERY_PART if "TF_CONFIG" in names else held,
        perhaps=frozenset(_perhaps(same)),
        flags=frozenset(
            filter(is_role_flag, (flag_name(text) for text in texts if text.startswith("-")))
        ),
        needed=tuple(_needed(same)),
        without_addresses=tuple(
            each.name for each in same if each.in_cluster and not each.job.addresses
        ),
    )


def parts_of_flags(names: Iterable[str]) -> frozenset[Part]:
    return frozenset("addresses" if is_hosts_flag(name) else _PART[name] for name in names)


def _parts(placeholder: Placeholder) -> frozenset[Part]:
    if placeholder.name == "tf_config":
        return EVERY_PART
    if placeholder.is_of_cluster:
        return frozenset({"addresses"})
    if not placeholder.is_own:
        return frozenset()
    # By its own address a task finds itself in a list.
    return frozenset({_PART[placeholder.name]}) if placeholder.name in _PART else EVERY_PART


def _perhaps(same: Sequence[JobPlan]) -> Iterator[Part]:
    if any(each.job.args is not None or each.job.extra_args or each.job.env for each in same):
        yield "job_name"
    if any(each.job.task_args or each.job.task_env for each in same):
        yield "task_index"


def _needed(same: Sequence[JobPlan]) -> Iterator[Part]:
    if len(same) > 1:
        yield "job_name"
    if any(each.job.count > 1 for each in same):
        yield "task_index"
