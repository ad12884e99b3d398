"""The pods of `up --kubernetes`, as objects, and the rights that making them needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from strict_schemas import check_core

from psclust.errors import ClusterFileError
from psclust.plan.cluster_layout import lay_out
from psclust.pods.agent_pods import largest, pod_objects, pods_of
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.kubernetes_checks import check_for_pods
from psclust.spec.load import load

RBAC = Path(__file__).parents[2] / "deploy" / "kubernetes-rbac.yaml"
DIGITS = (
    "name: d\nprogram: psclust.examples.digits:program\nreplication: in-graph\n"
    "jobs: {worker: {count: 2, gpus: 1}, ps: 1}\n"
)
IMAGE = (
    "kubernetes: {image: a, spares: 1, resources: {ps: {cpu: 500m, memory: 8Gi}, worker: "
    "{cpu: 2, memory: 4Gi}}}\n"
)


def read(folder: Path, text: str) -> ClusterFile:
    path = folder / "cluster.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, default_name="x", rules=[check_for_pods], find_hosts=pods_of)


def container(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = pod["spec"]["containers"][0]
    return found


def test_each_task_has_the_pod_of_its_name_and_spare_ones_hold_any_task(tmp_path: Path) -> None:
    file = read(tmp_path, DIGITS + IMAGE)
    # worker:0 on worker-0; the spare pod has no task.
    hosts = {str(task): host.name for task, host in lay_out(file).hosts.items()}
    assert hosts == {
        name: name.replace(":", "-") for name in ("ps:0", "worker:0", "worker:1", "client:0")
    }
    pods = pod_objects(file, "20260101-000000-12345678")
    assert [pod["metadata"]["name"] for pod in pods.values()] == [
        "d-ps-0",
        "d-worker-0",
        "d-worker-1",
        "d-client-0",
        "d-spare-0",
    ]
    for pod in pods.values():
        check_core(pod)
    assert container(pods["ps-0"])["resources"]["requests"] == {"cpu": "500m", "memory": "8Gi"}
    assert container(pods["spare-0"])["resources"]["requests"] == {
        "cpu": "2",
        "memory": "8Gi",
        "nvidia.com/gpu": "1",
    }
    assert (file.reach_by, file.python) == ("kubernetes", "python3")


def test_what_kubernetes_has_more_is_laid_over_each_pod(tmp_path: Path) -> None:
    more = (
        "{nodeSelector: {gpu: a100}, tolerations: [{key: gpu, operator: Exists}], "
        "imagePullSecrets: [{name: reg}]}"
    )
    file = read(
        tmp_path, f"name: d\nkubernetes: {{image: a, spares: 1, pod: {more}}}\njobs: {{ps: 1}}\n"
    )
    for pod in pod_objects(file, "r").values():
        check_core(pod)
        assert pod["spec"]["nodeSelector"] == {"gpu": "a100"}
        assert pod["spec"]["restartPolicy"] == "Never"


def test_secrets_and_volumes_are_in_every_pod_and_rights_are_not(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        "name: d\nkubernetes: {image: a, secrets: [hf], volumes: {model: /model}}\njobs: {ps: 1}\n",
    )
    pod = pod_objects(file, "r")["ps-0"]
    check_core(pod)
    assert container(pod)["envFrom"] == [{"secretRef": {"name": "hf"}}]
    assert container(pod)["volumeMounts"] == [{"name": "volume-0", "mountPath": "/model"}]
    assert pod["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["1", "900m"], "1"),
        (["900M", "1Gi"], "1Gi"),
        (["1000M", "1Gi", "1.1G"], "1.1G"),
        (["0.5", "500m"], "0.5"),
        (["1Ti", "1T"], "1Ti"),
    ],
)
def test_the_largest_quantity_is_found_across_units(given: list[str], expected: str) -> None:
    assert largest([{"x": each} for each in given]) == {"x": expected}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *(
            (text, "1: hosts: Kubernetes chooses the hosts of pods; remove the hosts here.")
            for text in ("hosts: a\n", "hosts: slurm\n", "hosts: local\n")
        ),
        ("reach_by: ssh\n", "1: reach_by: pods are reached through Kubernetes; remove this."),
    ],
)
def test_hosts_of_another_kind_are_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError) as caught:
        read(tmp_path, f"{text}kubernetes: {{image: a}}\n")
    assert list(caught.value.problems) == [f"{tmp_path / 'cluster.yaml'}:{said}"]


def test_a_queue_belongs_to_a_manifest(tmp_path: Path) -> None:
    with pytest.raises(
        ClusterFileError,
        match="Kueue admits what `psclust manifest` prints; remove it, or apply the manifest",
    ):
        read(tmp_path, "kubernetes: {image: a, queue: q}\n")


def test_elsewhere_pods_are_no_hosts(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("hosts: a\nreach_by: kubernetes\n", encoding="utf-8")
    with pytest.raises(
        ClusterFileError,
        match="psclust makes the pods itself; remove this, and call `psclust up --kubernetes`",
    ):
        load(path, default_name="x")


def test_the_file_of_rights_is_valid() -> None:
    objects = list(yaml.safe_load_all(RBAC.read_text(encoding="utf-8")))
    for each in objects:
        check_core(each)
    assert [each["kind"] for each in objects] == ["ServiceAccount", "Role", "RoleBinding"]
