"""One job of a cluster as a Job of Kubernetes: indexed, with a pod for each task that restarts as
the cluster file says."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
# The first process of a pod stops its tasks in time, and needs a moment itself.
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
    pod = {
        "subdomain": file.name,
        **pod_spec(
            file,
            _container(file, entry, file_text, run),
            file.kubernetes.resources.get(entry.name, {}),
            entry.job.gpus or 0,
            file.deadlines.stop,
        ),
        "restartPolicy": "OnFailure" if in_place else "Never",
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


def pod_spec(
    file: ClusterFile, container: Object, wanted: Mapping[str, str], gpus: int, grace_s: float
) -> Object:
    """A PodSpec of one container, with the file's image, secrets and volumes, and its own keys over
    ours. wanted, gpus: the container's resources. grace_s: what its first process needs to stop its
    tasks."""
    settings = file.kubernetes
    requests = dict(wanted) | ({settings.gpu: str(gpus)} if gpus else {})
    # A limit of CPU time would only slow a task down while cores are idle.
    limits = {name: quantity for name, quantity in requests.items() if name != "cpu"}
    volumes = [(f"volume-{number}", *each) for number, each in enumerate(settings.volumes.items())]
    container = {"name": CONTAINER, "image": settings.image, **container} | _without_empty(
        envFrom=[{"secretRef": {"name": name}} for name in settings.secrets or ()],
        resources=_without_empty(requests=requests, limits=limits),
        volumeMounts=[{"name": name, "mountPath": path} for name, _, path in volumes],
    )
    spec: Object = {
        # Variables of every service of the namespace could pass for the program's own.
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(grace_s) + _STOP_MARGIN_S,
        "containers": [container],
    }
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}} for name, claim, _ in volumes
    ]
    return spec | _without_empty(volumes=claims) | settings.pod


def _container(file: ClusterFile, entry: JobPlan, file_text: str, run: Object | None) -> Object:
    """For `pod_spec`."""
    port = names.port(file, entry.job)
    env: list[Object] = [{"name": VARIABLE, "value": file_text}]
    if run is not None:
        env.append({"name": RUN_VARIABLE, "valueFrom": run})
    container: Object = {"command": ["psclust", "task", entry.name], "env": env}
    if entry.in_cluster:
        container["ports"] = [{"name": "tensorflow", "containerPort": port}]
    if is_server(entry) and entry.in_cluster:
        container["readinessProbe"] = {
            "tcpSocket": {"port": port},
            "periodSeconds": _PROBE_PERIOD_S,
        }
    return container


def _without_empty(**keys: Any) -> Object:
    return {key: value for key, value in keys.items() if value}
