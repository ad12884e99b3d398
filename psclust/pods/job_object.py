"""One job of a cluster as a Job of Kubernetes: indexed, with a pod for each task that restarts as
the cluster file says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from psclust.plan.job_plan import JobPlan
from psclust.pods import names
from psclust.pods.file_in_pod import VARIABLE
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.job_keys import Restart

Object = dict[str, Any]

RUN_VARIABLE = "PSCLUST_RUN_ID"
CONTAINER = "task"
_MOST = 2**31 - 1
# Exit codes that another start cannot change: wrong arguments, no such command.
_HOPELESS = [2, 126, 127]
# `psclust task` stops its task within `deadlines.stop`, and needs a moment itself.
_STOP_MARGIN_S = 5
_PROBE_PERIOD_S = 2


def labels(cluster: str) -> dict[str, str]:
    """The labels of every object of a cluster; its service selects pods by them."""
    return {"app.kubernetes.io/managed-by": "psclust", "app.kubernetes.io/instance": cluster}


def queue_label(file: ClusterFile) -> dict[str, str]:
    """By which Kueue admits the object; empty without a queue."""
    return {"kueue.x-k8s.io/queue-name": file.kubernetes.queue} if file.kubernetes.queue else {}


def is_server(entry: JobPlan) -> bool:
    """Whether other tasks wait for its tasks: every ps, and the workers of an in-graph cluster."""
    return entry.role == "server"


def job_spec(file: ClusterFile, entry: JobPlan, file_text: str, run: Object | None) -> Object:
    """A JobSpec of batch/v1. `run`: where the pod's run id comes from, as `valueFrom`."""
    spec: Object = {
        "completionMode": "Indexed",
        "completions": entry.job.count,
        "parallelism": entry.job.count,
    }
    restart = entry.job.restart or file.restart
    spec |= _restarts(entry, restart)
    if file.deadlines.run is not None:
        spec["activeDeadlineSeconds"] = max(1, math.ceil(file.deadlines.run))
    in_place = (is_server(entry) or entry.role == "side") and restart.when != "never"
    pod = _pod_spec(file, entry, file_text, run) | {
        "restartPolicy": "OnFailure" if in_place else "Never"
    }
    return spec | {
        "template": {
            "metadata": {"labels": labels(file.name) | {"app.kubernetes.io/component": entry.name}},
            "spec": pod,
        }
    }


def _restarts(entry: JobPlan, restart: Restart) -> Object:
    """How often Kubernetes starts the job's tasks again. A server is restarted in its pod; a
    program gets a new pod. A program's pod that Kubernetes itself ended (a drained host,
    pre-emption) does not count. By default `up` starts no program again that ended with an exit
    code, but whether another task's death made it do so, pods cannot know."""
    if restart.when == "never":
        return {"backoffLimit": 0}
    if entry.role == "side":  # an observer never ends the run
        return {"backoffLimit": _MOST}
    if is_server(entry):
        return {"backoffLimit": restart.max * entry.job.count}
    rules: list[Object] = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
    if restart.when != "failure":
        rules.append(
            {
                "action": "FailJob",
                "onExitCodes": {"containerName": CONTAINER, "operator": "In", "values": _HOPELESS},
            }
        )
    return {
        "backoffLimitPerIndex": restart.max,
        "maxFailedIndexes": 0,
        "podFailurePolicy": {"rules": rules},
    }


def _pod_spec(file: ClusterFile, entry: JobPlan, file_text: str, run: Object | None) -> Object:
    """Without its restartPolicy."""
    container = _container(file, entry, file_text, run)
    spec: Object = {
        "subdomain": file.name,
        # Variables of every service of the namespace could pass for the program's own.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(file.deadlines.stop) + _STOP_MARGIN_S,
        "containers": [container],
    }
    mount(file, spec)
    return spec | file.kubernetes.pod


def mount(file: ClusterFile, pod_spec: Object) -> None:
    """Add the file's volumes to a PodSpec and to its container."""
    volumes = file.kubernetes.volumes
    if volumes:
        (container,) = pod_spec["containers"]
        container["volumeMounts"] = [
            {"name": f"volume-{number}", "mountPath": path}
            for number, path in enumerate(volumes.values())
        ]
        pod_spec["volumes"] = [
            {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(volumes)
        ]


def _container(file: ClusterFile, entry: JobPlan, file_text: str, run: Object | None) -> Object:
    settings, port = file.kubernetes, names.port(file, entry.job)
    env: list[Object] = [{"name": VARIABLE, "value": file_text}]
    if run is not None:
        env.append({"name": RUN_VARIABLE, "valueFrom": run})
    container: Object = {
        "name": CONTAINER,
        "image": settings.image,
        "command": ["psclust", "task", entry.name],
        "env": env,
    }
    if settings.secrets:
        container["envFrom"] = secret_variables(settings.secrets)
    if entry.in_cluster:
        container["ports"] = [{"name": "tensorflow", "containerPort": port}]
    if is_server(entry) and entry.in_cluster:
        container["readinessProbe"] = {
            "tcpSocket": {"port": port},
            "periodSeconds": _PROBE_PERIOD_S,
        }
    resources = requirements(
        settings.resources.get(entry.name, {}), settings.gpu, entry.job.gpus or 0
    )
    if resources:
        container["resources"] = resources
    return container


def secret_variables(names: Sequence[str]) -> list[Object]:
    """The `envFrom` of a container."""
    return [{"secretRef": {"name": name}} for name in names]


def requirements(wanted: Mapping[str, str], gpu: str, gpus: int) -> Object:
    """The `resources` of a container."""
    requests = dict(wanted) | ({gpu: str(gpus)} if gpus else {})
    # A limit of CPU time would only slow a task down while cores are idle.
    limits = {name: quantity for name, quantity in requests.items() if name != "cpu"}
    return {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
