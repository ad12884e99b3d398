"""Further rules for a cluster file that runs in pods: pods have names and an image of their own,
and Kubernetes chooses their hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from psclust.errors import UsageError
from psclust.spec.cluster_file import ClusterFile, ClusterText
from psclust.spec.found_hosts import FoundHosts
from psclust.spec.jobs import FAIL, RESTART_ALL, WORKER
from psclust.spec.port_range import LAST_PORT, parse_port_range
from psclust.spec.problems import KeyPath, Problem
from psclust.spec.spelling import nearest
from psclust.spec.worker_range import least_workers

# A host name has 63 characters; Kubernetes appends a hyphen and five characters of its own to a
# pod's name.
_LONGEST = 57
_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_FREE_PORTS = 2  # after that of the server: see pods/names.py


# Of a PodSpec.
_OWN_KEYS = {
    "containers",
    "enableServiceLinks",
    "hostname",
    "hostNetwork",
    "hostPID",
    "restartPolicy",
    "shareProcessNamespace",
}
_OWN_KEYS |= {"subdomain", "terminationGracePeriodSeconds", "volumes"}
_HOSTS = "Kubernetes chooses the hosts of pods; remove the hosts here."
_SECRET = (
    "a manifest holds no secrets; put the variables into a Secret, name it under "
    "kubernetes.secrets, and remove this."
)
# Keys that a manifest has no place for.
_NOT_IN_A_MANIFEST = {
    "tensorboard": "it runs where `psclust up` is called; "
    "give pods one as a job with a command, and remove this.",
    "metrics": "the supervisor of a run serves them, and the pods of a manifest have none; "
    "remove this.",
    "ship": "nothing is sent to pods; put the folder into the image, and remove this.",
    "env_file": _SECRET,
    "pass_env": _SECRET,
}


def refuse_hosts(text: ClusterText) -> FoundHosts | None:
    """In place of looking for hosts (`FindHosts`): a manifest is the same inside and outside an
    allocation."""
    if text.hosts is not None:
        raise UsageError(_HOSTS)
    return None


def check_for_kubernetes(file: ClusterFile) -> Iterator[Problem]:
    """Every reason why the file cannot become a manifest."""
    yield from _of_pods(file)
    yield from _ports(file)
    for key, text in _NOT_IN_A_MANIFEST.items():
        if getattr(file, key):
            yield Problem((key,), text)
    rules: list[KeyPath] = [
        (key,)
        for key in ("on_ps_failure", "on_worker_failure")
        if getattr(file, key) in (RESTART_ALL, FAIL)
    ]
    if least_workers(file) is not None:
        rules.append(("jobs", WORKER, "min"))
    for path in rules:
        yield Problem(
            path,
            "the supervisor of a run sees to this, and the pods of a manifest have none; "
            "remove it, or call `psclust up --kubernetes`.",
        )


def check_for_pods(file: ClusterFile) -> Iterator[Problem]:
    """Every reason why psclust cannot run the file in pods that it makes (`up --kubernetes`)."""
    yield from _of_pods(file)
    if file.kubernetes.queue is not None:
        text = "Kueue admits what `psclust manifest` prints; remove it, or apply the manifest."
        yield Problem(("kubernetes", "queue"), text)
    if file.found is None:
        if not file.hosts:  # hosts: local
            yield Problem(("hosts",), _HOSTS)
    elif file.reach_by != "kubernetes":
        yield Problem(("reach_by",), "pods are reached through Kubernetes; remove this.")


def _of_pods(file: ClusterFile) -> Iterator[Problem]:
    """What holds whoever makes the pods."""
    if file.kubernetes.image is None:
        text = (
            "no image is named; write one that holds psclust, "
            "TensorFlow and the program (docs/kubernetes.md), or give --image."
        )
        yield Problem(("kubernetes", "image"), text)
    for key in file.kubernetes.pod:
        if key in _OWN_KEYS:
            yield Problem(("kubernetes", "pod", key), "psclust decides this itself; remove it.")
    yield from _names(file)
    yield from _places(file)
    yield from _resources(file)


def _names(file: ClusterFile) -> Iterator[Problem]:
    if not _LABEL.fullmatch(file.name):
        rule = (
            "host names of pods begin with it: write small letters, digits and '-', "
            "a letter first, such as my-run."
        )
        yield Problem(("name",), f"found the name '{file.name}'; {rule}")
    if file.name == "kubernetes":
        yield Problem(
            ("name",), "the service of this name belongs to Kubernetes itself; choose another name."
        )
    for name, job in file.all_jobs.items():
        if not _LABEL.fullmatch(name):
            text = (
                "host names of pods contain it, and they take no '_'; "
                "write a name of small letters and digits."
            )
            yield Problem(("jobs", name), text)
        longest = f"{file.name}-{name}-0-{max(job.count - 1, 0)}"
        if len(longest) > _LONGEST:
            text = (
                f"the pod {longest} would have a name of {len(longest)} characters, "
                f"and {_LONGEST} is the limit; shorten this one."
            )
            yield Problem(("name",), text, (("jobs", name),))


def _places(file: ClusterFile) -> Iterator[Problem]:
    if file.hosts and file.found is None:
        yield Problem(("hosts",), _HOSTS)
    for name, job in file.jobs.items():
        if job.addresses:
            text = (
                "a pod has the address that its name stands for, never a given one; "
                "remove the addresses."
            )
            yield Problem(("jobs", name, "addresses"), text)
        if job.hosts:
            yield Problem(("jobs", name, "hosts"), _HOSTS, (("hosts",),))


def _resources(file: ClusterFile) -> Iterator[Problem]:
    for name, wanted in file.kubernetes.resources.items():
        here: KeyPath = ("kubernetes", "resources", name)
        if name not in file.all_jobs:
            near = nearest(name, file.all_jobs)
            hint = f"did you mean {near}?" if near else f"the jobs are {', '.join(file.all_jobs)}."
            yield Problem(here, f"there is no job '{name}'; {hint}", (("jobs", "*"),))
        if file.kubernetes.gpu in wanted:
            yield Problem(
                (*here, file.kubernetes.gpu),
                f"psclust counts GPUs itself; write jobs.{name}.gpus instead.",
            )


def _ports(file: ClusterFile) -> Iterator[Problem]:
    keys: dict[KeyPath, str] = {("ports",): file.ports}
    keys |= {("jobs", name, "ports"): job.ports for name, job in file.jobs.items() if job.ports}
    for path, ports in keys.items():
        if parse_port_range(ports)[0] > LAST_PORT - _FREE_PORTS:
            yield Problem(
                path,
                f"a pod uses this port and the next {_FREE_PORTS}; "
                f"write {LAST_PORT - _FREE_PORTS} or less.",
            )
