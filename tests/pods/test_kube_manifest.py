"""Manifests obey the published schemas and hold what the cluster file says (`make golden` writes
the expected texts anew)."""

from __future__ import annotations

import copy
import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_validate import ValidationError
from strict_schemas import check_core, check_job_set, check_rules_of_jobs

from psclust.errors import ClusterFileError
from psclust.pods.file_in_pod import read_file
from psclust.pods.kube_manifest import manifest, notes, render
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.kubernetes_checks import check_for_kubernetes, refuse_hosts
from psclust.spec.load import Override, load
from psclust.spec.yaml_lines import read_yaml

SPECS = Path(__file__).parents[2] / "cluster_specs"
GOLDEN = Path(__file__).parent / "golden"
IMAGE = Override("--image", ("kubernetes", "image"), "registry.example.com/me/train:1")

ALL_KEYS = """
name: everything
jobs:
  ps: {count: 3, ports: 4000, restart: {max: 10}}
  worker: {count: 2, gpus: 2, env: {LEVEL: "010"}}
  chief: {restart: {when: never}}
  evaluator: {run: [python, evaluate.py, --quiet]}
program: train.py
args: [--job, "{job_name}", --lr, 0.10]
deadlines: {run: 2h, stop: 20s}
restart: {max: 5}
kubernetes:
  image: registry.example.com/me/train:1
  namespace: team-a
  queue: short
  resources: {ps: {memory: 8Gi}, worker: {cpu: 500m, memory: 16Gi, ephemeral-storage: 10Gi}}
  gpu: amd.com/gpu
  secrets: [hf-token, wandb]
  volumes: {model: /model, data.v1: /data}
"""


def read(text: str, *overrides: Override) -> ClusterFile:
    data = read_yaml(text).data
    assert isinstance(data, dict)
    given = [Override("text", (key,), value) for key, value in data.items()]
    return load(
        None,
        [*given, *overrides],
        default_name="x",
        rules=[check_for_kubernetes],
        find_hosts=refuse_hosts,
    )


def suitable() -> Iterator[Path]:
    """The cluster files that may become a manifest."""
    for path in sorted(SPECS.glob("*.yaml")):
        try:
            load(
                path,
                [IMAGE],
                default_name="x",
                rules=[check_for_kubernetes],
                find_hosts=refuse_hosts,
            )
        except ClusterFileError:
            continue
        yield path


def test_most_cluster_files_may_become_a_manifest() -> None:
    refused = {path.stem for path in SPECS.glob("*.yaml")} - {path.stem for path in suitable()}
    assert {"given-addresses", "hostfile", "over-ssh", "two-hosts"} <= refused
    assert (
        not {"classic-flags", "tf-config", "coordinator", "digits", "command-per-job", "templates"}
        & refused
    )


@pytest.mark.parametrize("path", list(suitable()), ids=lambda path: path.stem)
def test_every_manifest_obeys_the_schemas_and_gives_the_pods_the_file(path: Path) -> None:
    file = load(
        path, [IMAGE], default_name="x", rules=[check_for_kubernetes], find_hosts=refuse_hosts
    )
    found, policy = yaml.safe_load_all(render(manifest(file, plain=False)))
    check_job_set(found)
    check_core(policy)
    service, *jobs, same = yaml.safe_load_all(render(manifest(file, plain=True)))
    assert same == policy
    check_core(service)
    for each in jobs:
        check_core(each)
        check_rules_of_jobs(each["spec"])
    (text,) = {
        entry["value"]
        for each in jobs
        for entry in each["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert read_file({"PSCLUST_FILE": text}).model_dump(
        exclude={"hosts", "kubernetes"}
    ) == file.model_dump(exclude={"hosts", "kubernetes"})


@pytest.mark.parametrize("plain", [False, True], ids=["jobset", "plain"])
@pytest.mark.parametrize("name", ["digits", "everything"])
def test_a_manifest_is_as_it_was(name: str, plain: bool) -> None:
    file = read(
        ALL_KEYS
        if name == "everything"
        else (SPECS / "kubernetes.yaml").read_text(encoding="utf-8")
    )
    text = render(manifest(file, plain=plain))
    golden = GOLDEN / f"{name}-{'plain' if plain else 'jobset'}.yaml"
    if os.environ.get("PSCLUST_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_a_manifest_with_every_key_obeys_the_schemas() -> None:
    file = read(ALL_KEYS)
    check_job_set(manifest(file, plain=False)[0])
    for found in manifest(file, plain=True):
        check_core(found)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.sucessPolicy", {}),
        ("spec.network.subDomain", "x"),
        ("spec.replicatedJobs.0.dependsOn", [{"name": "worker", "status": "Ready"}]),
        ("spec.replicatedJobs.1.template.spec.backofLimit", 1),
        ("spec.replicatedJobs.1.template.spec.template.spec.containers.0.readinesProbe", {}),
        ("spec.replicatedJobs.1.template.spec.template.spec.restartPolicy", "OnFailure"),
        ("spec.replicatedJobs.1.template.spec.completions", "two"),
        ("spec.successPolicy.operator", "Most"),
        ("spec.successPolicy.targetReplicatedJobs", ["chief"]),
    ],
)
def test_a_mistake_in_a_manifest_would_be_seen(path: str, value: object) -> None:
    found, _ = copy.deepcopy(
        manifest(read((SPECS / "kubernetes.yaml").read_text(encoding="utf-8")), plain=False)
    )
    inner: Any = found
    *above, last = path.split(".")
    for step in above:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    inner[last] = value
    with pytest.raises((AssertionError, ValidationError, ValueError)):
        check_job_set(found)


def test_in_graph_the_workers_are_servers_and_the_client_decides() -> None:
    found, _ = manifest(
        read("{name: d, program: m:p, replication: in-graph, kubernetes: {image: a}}"), plain=False
    )
    jobs = found["spec"]["replicatedJobs"]
    assert [entry["name"] for entry in jobs] == ["ps", "worker", "client"]
    assert [need["name"] for need in jobs[2]["dependsOn"]] == ["ps", "worker"]
    assert found["spec"]["successPolicy"]["targetReplicatedJobs"] == ["client"]
    assert "readinessProbe" in jobs[1]["template"]["spec"]["template"]["spec"]["containers"][0]


def test_bare_servers_have_no_end_of_their_own() -> None:
    found, _ = manifest(read("{name: d, kubernetes: {image: a}}"), plain=False)
    assert "successPolicy" not in found["spec"]
    check_job_set(found)


def test_a_model_that_would_be_lost_with_its_pod_is_noted() -> None:
    assert "kubernetes.volumes" in notes(read("{name: d, program: m:p, kubernetes: {image: a}}"))[0]
    assert (
        notes(read("{name: d, program: m:p, args: [--model-dir=/m], kubernetes: {image: a}}")) == []
    )
    assert notes(read("{name: d, program: train.py, kubernetes: {image: a}}")) == []


def test_the_example_of_the_documentation_is_a_cluster_file_for_kubernetes() -> None:
    page = (SPECS.parent / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    block = re.search(r"`cluster\.yaml`:\n\n((?:    .*\n)+)", page)
    assert block
    file = read(textwrap.dedent(block[1]))
    check_job_set(manifest(file, plain=False)[0])
    assert file.kubernetes.image in page.replace(block[1], "")


def test_other_pods_are_kept_out_and_what_the_file_admits_is_let_in() -> None:
    file = read("{name: d, kubernetes: {image: a}, admit: [10.0.0.7, 10.1.2.0/16]}")
    *_, policy = manifest(file, plain=True)
    check_core(policy)
    pods = policy["spec"]["podSelector"]
    made = [each for each in manifest(file, plain=True) if each["kind"] == "Job"]
    for job in made:
        found = job["spec"]["template"]["metadata"]["labels"]
        assert pods["matchLabels"].items() <= found.items()
    assert policy["spec"]["ingress"] == [
        {
            "from": [
                {"podSelector": pods},
                {"ipBlock": {"cidr": "10.0.0.7/32"}},
                {"ipBlock": {"cidr": "10.1.0.0/16"}},
            ]
        }
    ]


def test_without_a_policy_everybody_reaches_the_pods() -> None:
    file = read("{name: d, kubernetes: {image: a}, admit: all}")
    assert [each["kind"] for each in manifest(file, plain=False)] == ["JobSet"]
