"""What keeps a cluster file from becoming a manifest, in the words that the user sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_files import mistakes, write

from psclust.spec.kubernetes_checks import check_for_kubernetes, refuse_hosts
from psclust.spec.load import load

IMAGE = "kubernetes: {image: a}"
# What stands in the file -> the message, less the file's name.
MISTAKES = {
    "jobs: {ps: 1}": (
        " kubernetes.image: no image is named; write one that holds psclust, "
        "TensorFlow and the program (docs/kubernetes.md), or give --image."
    ),
    "kubernetes: {image: a, nodes: 2}": (
        "1: kubernetes.nodes: unknown key; known here are image, namespace, pod, context, start, "
        "spares, queue, resources, gpu, secrets, volumes."
    ),
    "kubernetes: {image: a, pod: {volumes: []}}": (
        "1: kubernetes.pod.volumes: psclust decides this itself; remove it."
    ),
    "kubernetes: {image: a, pod: {node-selector: {a: b}}}": (
        "1: kubernetes.pod.node-selector: found the key 'node-selector'; "
        "write a key of a PodSpec, such as nodeSelector."
    ),
    "kubernetes: {image: a, queue: Team A}": (
        "1: kubernetes.queue: found the text 'Team A'; write a name of small letters, "
        "digits and '-', such as team-a."
    ),
    "kubernetes: {image: a, volumes: {model: model}}": (
        "1: kubernetes.volumes.model: found the text 'model'; write a path such as /model."
    ),
    "kubernetes: {image: a, volumes: /model}": (
        "1: kubernetes.volumes: found the text '/model'; write a mapping such as {model: /model}."
    ),
    "kubernetes: {image: a, resources: {ps: {cpu: many}}}": (
        "1: kubernetes.resources.ps.cpu: found the text 'many'; "
        "write a quantity such as 2, 500m or 8Gi."
    ),
    "kubernetes: {image: a, resources: {wroker: {cpu: 1}}}": (
        "1: kubernetes.resources.wroker: there is no job 'wroker'; did you mean worker?"
    ),
    "kubernetes: {image: a, resources: {worker: {nvidia.com/gpu: 1}}}": (
        "1: kubernetes.resources.worker.nvidia.com/gpu: psclust counts GPUs itself; "
        "write jobs.worker.gpus instead."
    ),
    f"name: My_Run\n{IMAGE}": (
        "1: name: found the name 'My_Run'; host names of pods begin with it: "
        "write small letters, digits and '-', a letter first, such as my-run."
    ),
    f"name: kubernetes\n{IMAGE}": (
        "1: name: the service of this name belongs to Kubernetes itself; choose another name."
    ),
    f"name: {'a' * 50}\n{IMAGE}": (
        f"1: name: the pod {'a' * 50}-worker-0-1 would have a name of 61 characters, "
        "and 57 is the limit; shorten this one."
    ),
    f"jobs: {{ps: 1, my_job: 2}}\n{IMAGE}": (
        "1: jobs.my_job: host names of pods contain it, and they take no '_'; "
        "write a name of small letters and digits."
    ),
    f"hosts: slurm\n{IMAGE}": (
        "1: hosts: Kubernetes chooses the hosts of pods; remove the hosts here."
    ),
    f"hosts: a,b\n{IMAGE}": (
        "1: hosts: Kubernetes chooses the hosts of pods; remove the hosts here."
    ),
    f"jobs: {{ps: {{addresses: ['localhost:2222']}}}}\n{IMAGE}": (
        "1: jobs.ps.addresses: a pod has the address that its name stands for, never a given one; "
        "remove the addresses."
    ),
    f"ship: .\n{IMAGE}": (
        "1: ship: nothing is sent to pods; put the folder into the image, and remove this."
    ),
    f"pass_env: [HF_TOKEN]\n{IMAGE}": (
        "1: pass_env: a manifest holds no secrets; put the variables into a Secret, "
        "name it under kubernetes.secrets, and remove this."
    ),
    f"tensorboard: logs\nprogram: a.py\n{IMAGE}": (
        "1: tensorboard: it runs where `psclust up` is called; "
        "give pods one as a job with a command, and remove this."
    ),
    f"metrics: 9400\n{IMAGE}": (
        "1: metrics: the supervisor of a run serves them, "
        "and the pods of a manifest have none; remove this."
    ),
    f"on_ps_failure: restart-all\n{IMAGE}": (
        "1: on_ps_failure: the supervisor of a run sees to this, and the pods of a manifest have "
        "none; remove it, or call `psclust up --kubernetes`."
    ),
    f"ports: 65535\njobs: {{ps: 1}}\n{IMAGE}": (
        "1: ports: a pod uses this port and the next 2; write 65533 or less."
    ),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_where_what_and_what_to_do(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    found = mistakes(path, rules=[check_for_kubernetes], find_hosts=refuse_hosts)
    assert found == [f"{path}:{MISTAKES[text]}"]


def test_only_a_manifest_minds(tmp_path: Path) -> None:
    path = write(tmp_path, "name: My_Run\npass_env: [HF_TOKEN]\nkubernetes: {image: a}")
    assert load(path, default_name="x").kubernetes.image == "a"
