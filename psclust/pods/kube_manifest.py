"""The manifest of a cluster: a JobSet, or plain Jobs and a headless Service where JobSet is not
installed; and a NetworkPolicy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import Any

import yaml

from psclust.plan.cluster_layout import lay_out
from psclust.plan.job_plan import JobPlan
from psclust.pods import names
from psclust.pods.file_in_pod import render_file
from psclust.pods.job_object import Object, is_server, job_spec, labels, queue_label
from psclust.pods.pod_plan import with_pods
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.key_types import EVERYBODY

# Tells the evaluator's records of this training from those of an earlier one in the same model
# folder.
_RUN = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/jobset-uid']"}}


def manifest(file: ClusterFile, *, plain: bool) -> list[Object]:
    """The objects for `kubectl apply`. `file`: checked by `psclust.spec.kubernetes_checks`. Raises
    UsageError when `ends_with` names a job that runs no program."""
    jobs = sorted(lay_out(with_pods(file)).jobs, key=lambda entry: not is_server(entry))
    made = _plain(file, jobs) if plain else [_job_set(file, jobs)]
    return made if EVERYBODY in file.admit else [*made, _network_policy(file)]


def render(objects: Iterable[Object]) -> str:
    """As a YAML stream."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=1000)


def notes(file: ClusterFile) -> list[str]:
    """Sentences for the user about the manifest."""
    suited = [file.suited] if file.suited else []
    words = [
        *file.args,
        *(word for job in file.jobs.values() for word in (*(job.args or ()), *job.extra_args)),
    ]
    if file.program_command.is_psclust and not any(
        word.partition("=")[0] == "--model-dir" for word in words
    ):
        return [
            *suited,
            (
                "without --model-dir the model and its checkpoints are lost with the chief's pod; "
                "mount a PersistentVolumeClaim with kubernetes.volumes, "
                "and give --model-dir a folder there."
            ),
        ]
    return suited


def _job_set(file: ClusterFile, jobs: Sequence[JobPlan]) -> Object:
    deciders = [entry.name for entry in jobs if entry.decides]
    spec: Object = {
        # Pods find each other before they are ready: every pod of a job starts at once.
        "network": {
            "enableDNSHostnames": True,
            "subdomain": file.name,
            "publishNotReadyAddresses": True,
        },
    }
    if deciders:
        spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": deciders}
    spec["replicatedJobs"] = [_replicated_job(file, entry, jobs) for entry in jobs]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(file, file.name),
        "spec": spec,
    }


def _replicated_job(file: ClusterFile, entry: JobPlan, jobs: Sequence[JobPlan]) -> Object:
    replicated: Object = {"name": entry.name, "replicas": 1}
    servers = [other.name for other in jobs if is_server(other) and other.in_cluster]
    if servers and not is_server(entry):
        replicated["dependsOn"] = [{"name": name, "status": "Ready"} for name in servers]
    return replicated | {"template": {"spec": job_spec(file, entry, render_file(file), _RUN)}}


def _plain(file: ClusterFile, jobs: Sequence[JobPlan]) -> list[Object]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(file, file.name) | {"labels": labels(file.name)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels(file.name),
        },
    }
    return [service, *(_job(file, entry) for entry in jobs)]


def _job(file: ClusterFile, entry: JobPlan) -> Object:
    metadata = _metadata(file, names.job_name(file.name, entry.name))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": job_spec(file, entry, render_file(file), None),
    }


def _metadata(file: ClusterFile, name: str) -> Object:
    space = {"namespace": file.kubernetes.namespace} if file.kubernetes.namespace else {}
    return {"name": name, **space, "labels": labels(file.name) | queue_label(file)}


def _network_policy(file: ClusterFile) -> Object:
    """Only pods of the cluster, and addresses of `admit`, reach its pods. Addresses of pods change,
    so a list of them in each pod would not do."""
    blocks = [{"ipBlock": {"cidr": str(ip_network(text, strict=False))}} for text in file.admit]
    pods = {"matchLabels": labels(file.name)}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(file, file.name),
        "spec": {
            "podSelector": pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": pods}, *blocks]}],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Repeats a value instead of referring to it, and writes text of several lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)
