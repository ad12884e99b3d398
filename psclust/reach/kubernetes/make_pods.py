"""Making the pods of a run, and removing them: see `psclust.reach.host_maker.HostMaker`."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from psclust.errors import PsclustError, StartError, UsageError
from psclust.pods.agent_pods import pod_objects, pods_of
from psclust.reach.fan_out import attempt_on_each
from psclust.reach.host_maker import Say
from psclust.reach.kubernetes.kube_api import KubeApi, KubeLocation, find_location, selector
from psclust.reach.kubernetes.pod_states import PodState
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.kubernetes_checks import check_for_pods
from psclust.spec.plurals import counted, some_of
from psclust.spec.typed_json import build
from psclust.spec.worker_range import least_workers

_LOOK_S = 0.5
_GRACE_S = 1  # the tasks have been ended by then
_GONE_S = 20.0
_QUIET_LOOKS = 2  # without a pod: a request to make one may still have been on its way


HOSTS = "pods"
check_file = check_for_pods
hosts_of = pods_of


def describe(file: ClusterFile) -> str:
    return yaml.safe_dump_all(
        pod_objects(file, "RUN", source="...").values(), sort_keys=False, width=1000
    )


def location(file: ClusterFile) -> Mapping[str, Any]:
    return asdict(find_location(file.kubernetes, os.environ))


def make(file: ClusterFile, run: str, location: Mapping[str, Any], say: Say) -> None:
    api = KubeApi(build(KubeLocation, location))
    _refuse_others(api, file.name)
    pods = pod_objects(file, run)
    say(f"creating {counted(len(pods), 'pod')} in {api.location}")
    outcomes = attempt_on_each(list(pods), lambda host: api.create_pod(pods[host]))
    failures = [outcome for outcome in outcomes.values() if isinstance(outcome, PsclustError)]
    if failures:
        # One refusal is like the others.
        raise failures[0]
    try:
        _wait_until_running(api, file, run, [pod["metadata"]["name"] for pod in pods.values()], say)
    except _NotInTimeError as error:
        if least_workers(file) is None:
            raise
        # Whether enough run is seen when they are logged in to.
        say(str(error))


def remove(cluster: str, run: str, location: Mapping[str, Any]) -> int:
    api = KubeApi(build(KubeLocation, location))
    asked: set[str] = set()
    quiet = 0
    deadline = time.monotonic() + _GONE_S
    while True:
        pods = api.pod_states(cluster, run)
        for name in pods.keys() - asked:
            asked.add(name)
            api.delete_pod(name, _GRACE_S)
        quiet = 0 if pods else quiet + 1
        if quiet == _QUIET_LOOKS:
            return len(asked)
        if pods and time.monotonic() > deadline:
            raise StartError(
                f"{', '.join(pods)}: still {next(iter(pods.values()))} in {api.location}; "
                "Kubernetes removes a pod when its node answers."
            )
        time.sleep(_LOOK_S)


class _NotInTimeError(StartError):
    """Pods may still run later."""


def _refuse_others(api: KubeApi, cluster: str) -> None:
    """Raises UsageError where the pods of another run have these names."""
    found = api.pod_states(cluster)
    if found:
        raise UsageError(
            f"{cluster} has {counted(len(found), 'pod')} in {api.location} already ({min(found)}, "
            "...), which this machine has not made. End that run where it was started, or `kubectl "
            f"delete pods -l {selector(cluster)}`, or give this one another --name."
        )


def _wait_until_running(
    api: KubeApi, file: ClusterFile, run: str, names: Sequence[str], say: Say
) -> None:
    """names: of all pods. Raises _NotInTimeError, and StartError at once for what waiting cannot
    mend."""
    began, deadline_s = time.monotonic(), file.kubernetes.start
    shown: set[str] = set()
    while True:
        states = api.pod_states(file.name, run)
        missing = [name for name in names if name not in states]
        failed = {name: state for name, state in states.items() if state.failed or state.leaving}
        if failed:
            raise StartError("\n".join(_grouped(failed)))
        waiting = {name: state for name, state in states.items() if state.address is None}
        if not waiting and not missing:
            say(f"all {counted(len(names), 'pod')} run after {time.monotonic() - began:.0f} s")
            return
        for line in _grouped({name: state for name, state in waiting.items() if state.waits}):
            if line not in shown:
                shown.add(line)
                say(f"waiting for {line}")
        if time.monotonic() - began > deadline_s:
            lines = _grouped(waiting) or [f"{some_of(missing)}: not there"]
            raise _NotInTimeError(
                "\n".join(
                    f"{line} (after {deadline_s:g} s; kubernetes.start is how long to wait)."
                    for line in lines
                )
            )
        time.sleep(_LOOK_S)


def _grouped(states: Mapping[str, PodState]) -> Sequence[str]:
    """One line for each distinct state, with the names of its pods."""
    groups: dict[str, list[str]] = {}
    for name, state in states.items():
        groups.setdefault(str(state), []).append(name)
    return [f"{some_of(names)}: {said}" for said, names in groups.items()]
