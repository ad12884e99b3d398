"""Replaces the placeholders in arguments and environment by the values of one task. No shell is
involved: `,` `;` and `|` reach the program unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from psclust.errors import UsageError
from psclust.spec.cluster import ClusterSpec, Task, render_tf_config
from psclust.spec.jobs import PS, WORKER
from psclust.spec.key_types import ARRAY_TASK
from psclust.spec.placeholders import FREE_PORT, PATTERN, USUAL_JOBS, Placeholder


@dataclass(frozen=True, slots=True)
class PlaceholderValues:
    """Of one task. `plain`: of the placeholders without an argument; `cluster`: the addresses for
    the others."""

    plain: Mapping[str, str]
    cluster: ClusterSpec

    def get(self, placeholder: Placeholder) -> str | None:
        """None for a placeholder that does not exist."""
        if placeholder.argument is None:
            return self.plain.get(placeholder.name)
        if placeholder.task is None:
            joined = (
                self.plain.get(placeholder.name) if placeholder.name.endswith("_hosts") else None
            )
            return None if joined is None else joined.replace(",", placeholder.argument)
        address = self.cluster.address(placeholder.task)
        if address is None:
            return None
        host, _, port = address.rpartition(":")
        return {"address": address, "host": host, "port": port}[placeholder.name]


def fill(text: str, values: PlaceholderValues, *, where: str) -> str:
    """`text` with every placeholder replaced. `{{` and `}}` become braces; other braces (JSON)
    stay. Raises UsageError for an unknown placeholder."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        placeholder = Placeholder.of(match)
        if placeholder is None:
            return match[0]
        value = values.get(placeholder)
        if value is None:
            known = ", ".join(sorted(values.plain))
            raise UsageError(
                f"{where}: {text!r} has the unknown placeholder {match[0]}; known are {known}. "
                f"Write {{{{ and }}}} for braces."
            )
        return value

    return PATTERN.sub(replace, text)


def placeholder_values(
    cluster: ClusterSpec,
    task: Task,
    *,
    name: str,
    run_dir: str,
    free_port: int | None,
    array_task: str | None,
) -> PlaceholderValues:
    """Of `task`. `{ps_hosts}`, `{worker_hosts}` and `{chief_hosts}` are empty if the cluster has no
    such job."""
    address = cluster.address(task) or ""
    host, _, port = address.rpartition(":")
    plain = {f"{job}_hosts": "" for job in USUAL_JOBS}
    plain |= {f"{job}_hosts": ",".join(addresses) for job, addresses in cluster.jobs.items()}
    plain |= {
        "job_name": task.job,
        "task_index": str(task.index),
        "address": address,
        "host": host,
        "port": port,
        "tf_config": render_tf_config(cluster, task),
        "cluster": json.dumps(cluster.as_dict(), separators=(",", ":")),
        "num_ps": str(cluster.count(PS)),
        "num_workers": str(cluster.count(WORKER)),
        "name": name,
        "run_dir": run_dir,
        FREE_PORT: "auto" if free_port is None else str(free_port),
    }
    if array_task is not None:
        plain[ARRAY_TASK.strip("{}")] = array_task
    return PlaceholderValues(plain, cluster)
