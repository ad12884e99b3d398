"""Placeholders in arguments and environment: `{ps_hosts}`, `{task_index}`, `{tf_config}` ... No shell takes part, so `,` `;` and `|` reach
the program as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from psclust.errors import UsageError
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.tf_config import render_tf_config

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z][a-z0-9_]*)\}")


def has_placeholder(text: str) -> bool:
    return any(match[1] for match in _PLACEHOLDER.finditer(text))


def fill(text: str, values: Mapping[str, str], *, where: str) -> str:
    """`text` with every `{name}` replaced; `{{` and `}}` stand for braces, other braces (JSON) stay.
    Raises UsageError for an unknown name."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        if match[1] not in values:
            known = ", ".join(sorted(values))
            raise UsageError(
                f"{where}: {text!r} has the unknown placeholder {match[0]}; known are {known}. Write {{{{ and }}}} for braces."
            )
        return values[match[1]]

    return _PLACEHOLDER.sub(replace, text)


def placeholder_values(cluster: ClusterSpec, task: Task, address: str | None, *, name: str, run_dir: str) -> dict[str, str]:
    """What the placeholders stand for in `task`. A job absent from the cluster has an empty `{job_hosts}` for ps, worker and chief."""
    host, _, port = (address or "").rpartition(":")
    values = {f"{job}_hosts": "" for job in ("ps", "worker", "chief")}
    values |= {f"{job}_hosts": ",".join(addresses) for job, addresses in cluster.jobs.items()}
    return values | {
        "job_name": task.job,
        "task_index": str(task.index),
        "address": address or "",
        "host": host,
        "port": port,
        "tf_config": render_tf_config(cluster, task),
        "cluster": json.dumps(cluster.as_dict(), separators=(",", ":")),
        "num_ps": str(len(cluster.jobs.get("ps", ()))),
        "num_workers": str(len(cluster.jobs.get("worker", ()))),
        "name": name,
        "run_dir": run_dir,
    }
