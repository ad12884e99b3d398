"""The plan of a cluster whose tasks run in pods. Each pod is a host with one slot and a fixed port,
so the planner needs no cases for pods, and `psclust task` makes the same plan in every pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from psclust.plan.build_plan import Run, build_plan
from psclust.plan.cluster_layout import ClusterLayout
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.port_request import extra_port
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_environment import GRPC_OPTIONS, HostEnvironment
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.pods import names
from psclust.spec.cluster import Host, Task
from psclust.spec.cluster_file import ClusterFile

_OPTIONS = "TF_GRPC_DEFAULT_OPTIONS"
# A pod that Kubernetes replaces comes back under its name with another address. gRPC looks a name
# up again when a connection fails, but by default at most every 30 s, and it gives a connection to
# an address that is gone 20 s.
_NAME_OPTIONS = "grpc.dns_min_time_between_resolutions_ms=1000,grpc.min_reconnect_backoff_ms=3000"


def with_pods(file: ClusterFile) -> ClusterFile:
    """The file with one host for each task, its pod, which its job is pinned to."""
    pods = {
        name: [names.host_name(file.name, Task(name, index)) for index in range(job.count)]
        for name, job in file.all_jobs.items()
    }
    # A job that psclust adds is pinned to no host: its one task takes the one slot that is left.
    jobs = {
        name: job.model_copy(update={"hosts": pods[name] or None})
        for name, job in file.jobs.items()
    }
    hosts = [Host(name, slots=1) for job in pods.values() for name in job]
    return file.model_copy(update={"jobs": jobs, "hosts": hosts, "preload": False})


def plan_pods(
    file: ClusterFile,
    layout: ClusterLayout,
    here: HostEnvironment,
    run: Run,
    scripts: Mapping[str, ScriptFacts],
) -> Plan:
    """The plan of the whole cluster as the pod with the environment `here` makes it; folders and
    inherited variables are those of this pod. `file`: of `with_pods`. `scripts`: the facts of each
    job's Python program."""
    environment = replace(here, python=file.python or here.python)
    hosts = {host.name: RemoteHost(environment, run.folder, host.name) for host in file.hosts}
    ports: dict[Task, int] = {}
    for entry in layout.jobs:
        port = names.port(file, entry.job)
        ports |= dict.fromkeys(entry.tasks, port) | {
            extra_port(task): names.free_port(port) for task in entry.tasks
        }
    inputs = PlanInputs(file, scripts, hosts, environment)
    plan = build_plan(inputs, inputs.reached(layout), run, ports)
    return replace(plan, tasks=tuple(_in_a_pod(task) for task in plan.tasks))


def _in_a_pod(task: TaskPlan) -> TaskPlan:
    # A pod has one network interface, where Kubernetes probes the server's port, while proxies in
    # the pod dial 127.0.0.1. Who may connect is the NetworkPolicy's to say.
    env = {
        name: value
        for name, value in task.env.items()
        if name not in ("PSCLUST_BIND", "PSCLUST_PORT", "PSCLUST_ADMIT")
    }
    if env.get(_OPTIONS) == GRPC_OPTIONS:
        env[_OPTIONS] = f"{GRPC_OPTIONS},{_NAME_OPTIONS}"
    return replace(task, env=env)
