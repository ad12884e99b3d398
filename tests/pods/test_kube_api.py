"""What Kubernetes refuses, in the words that the user sees."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from kube_server import KubeServer, api_server, container_status

from psclust.errors import PsclustError, UsageError
from psclust.pods.agent_pods import pods_of
from psclust.reach.kubernetes.kube_api import KubeApi, KubeLocation, find_location
from psclust.reach.kubernetes.make_pods import make, remove
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_keys import Kubernetes
from psclust.spec.kubernetes_checks import check_for_pods
from psclust.spec.load import load


@pytest.fixture(scope="module")
def shared() -> Iterator[KubeServer]:
    with api_server() as server:
        yield server


@pytest.fixture
def server(shared: KubeServer) -> Iterator[KubeServer]:
    yield shared
    shared.refused.clear()
    shared.verdict = lambda pod: None


def place(server: KubeServer, folder: Path, **config: str) -> Mapping[str, Any]:
    return asdict(KubeLocation(str(server.kubeconfig(folder, **config)), "small", "team-a"))


def read(folder: Path, more: str = "") -> ClusterFile:
    path = folder / "cluster.yaml"
    path.write_text(
        f"name: d\njobs: {{ps: 1, worker: 2}}\nkubernetes: {{image: a, start: 0.1{more}}}\n",
        encoding="utf-8",
    )
    return load(path, default_name="x", rules=[check_for_pods], find_hosts=pods_of)


def refusal(server: KubeServer, folder: Path, **config: str) -> str:
    """The error of making pods; all are removed then."""
    where = place(server, folder, **config)
    with pytest.raises(PsclustError) as caught:
        make(read(folder), "run", where, lambda line: None)
    server.refused.clear()
    remove("d", "run", place(server, folder))
    assert server.pods() == []
    return str(caught.value)


def pending(pod: Mapping[str, Any], reason: str, message: str) -> Mapping[str, Any] | None:
    """The status of the second worker's pod; others have none."""
    if pod["metadata"]["name"] != "d-worker-1":
        return {"phase": "Pending"}
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [container_status(state)]}


FORBIDDEN = 'pods is forbidden: User "me" cannot create resource "pods"'
NO_NAMESPACE = 'namespaces "team-a" not found'
WHERE = "namespace team-a of small"
RIGHTS = "Ask for the rights in deploy/kubernetes-rbac.yaml (docs/kubernetes.md)."


@pytest.mark.parametrize(
    ("verb", "status", "message", "said"),
    [
        (
            "create",
            403,
            FORBIDDEN,
            f"Kubernetes does not let you create pods in {WHERE}: {FORBIDDEN}. {RIGHTS}",
        ),
        ("list", 403, "no", f"Kubernetes does not let you list pods in {WHERE}: no. {RIGHTS}"),
        (
            "create",
            404,
            NO_NAMESPACE,
            f"kubernetes.namespace: there is no {WHERE}: {NO_NAMESPACE}. Name one that exists.",
        ),
        (
            "create",
            403,
            "exceeded quota: few",
            f"Kubernetes refuses to create a pod in {WHERE}: exceeded quota: few.",
        ),
    ],
)
def test_a_refused_request_names_what_to_do(
    verb: str, status: int, message: str, said: str, server: KubeServer, tmp_path: Path
) -> None:
    server.refused[verb, "pods"] = status, message
    assert refusal(server, tmp_path) == said


def test_a_misspelt_key_of_a_pod_is_refused(server: KubeServer, tmp_path: Path) -> None:
    file = read(tmp_path, ", pod: {nodeSelectr: {a: b}}")
    with pytest.raises(
        UsageError,
        match=r"kubernetes.pod: spec.nodeSelectr: .* `kubectl explain pod.spec` has the keys",
    ):
        make(file, "run", place(server, tmp_path), lambda line: None)


def test_a_refused_exec_names_the_right(server: KubeServer, tmp_path: Path) -> None:
    server.refused["get", "pods/exec"] = 403, 'cannot create resource "pods/exec"'
    api = KubeApi(KubeLocation(**place(server, tmp_path)))
    with pytest.raises(UsageError) as caught:
        api.exec("d-ps-0", ["true"])
    assert str(caught.value) == (
        "Kubernetes does not let you create and get pods/exec in namespace team-a of small: "
        'cannot create resource "pods/exec". Ask for '
        "the rights in deploy/kubernetes-rbac.yaml (docs/kubernetes.md)."
    )


def test_an_expired_log_in(server: KubeServer, tmp_path: Path) -> None:
    assert refusal(server, tmp_path, token="old").startswith(
        "Kubernetes does not accept your log-in to namespace team-a of small: "
        "Unauthorized. Log in again"
    )


def test_a_server_that_is_not_there(tmp_path: Path, server: KubeServer) -> None:
    where = place(server, tmp_path)
    config = tmp_path / "kubeconfig"
    config.write_text(
        config.read_text().replace(server.url, "http://127.0.0.1:9"), encoding="utf-8"
    )
    with pytest.raises(
        PsclustError,
        match=r"Kubernetes at http://127.0.0.1:9 does not answer: .* Is it the right context",
    ):
        make(read(tmp_path), "run", where, lambda line: None)


def test_an_image_that_cannot_be_pulled_is_reported_before_the_deadline(
    server: KubeServer, tmp_path: Path
) -> None:
    server.verdict = lambda pod: pending(pod, "ImagePullBackOff", 'Back-off pulling image "a"')
    file = read(tmp_path).model_copy(update={"kubernetes": Kubernetes(image="a", start=1000.0)})
    with pytest.raises(PsclustError) as caught:
        make(file, "run", place(server, tmp_path), lambda line: None)
    remove("d", "run", place(server, tmp_path))
    assert str(caught.value) == (
        'd-worker-1: ImagePullBackOff: Back-off pulling image "a". Check kubernetes.image, and '
        "that the cluster may pull it."
    )


def test_the_words_of_the_scheduler_are_shown_at_once_and_at_the_deadline(
    server: KubeServer, tmp_path: Path
) -> None:
    words = "0/3 nodes are available: 3 Insufficient cpu."
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": words,
    }
    server.verdict = lambda pod: {"phase": "Pending", "conditions": [condition]}
    said: list[str] = []
    with pytest.raises(PsclustError) as caught:
        make(read(tmp_path), "run", place(server, tmp_path), said.append)
    remove("d", "run", place(server, tmp_path))
    pods = (
        "d-ps-0, d-worker-0, d-worker-1: Pending: Unschedulable: "
        "0/3 nodes are available: 3 Insufficient cpu"
    )
    assert said[-1] == f"waiting for {pods}"
    assert str(caught.value) == f"{pods} (after 0.1 s; kubernetes.start is how long to wait)."


def test_pods_of_another_launcher_are_left_alone(server: KubeServer, tmp_path: Path) -> None:
    """Which has the same name here."""
    server.verdict = lambda pod: {"phase": "Pending"}
    with pytest.raises(PsclustError):
        make(read(tmp_path), "theirs", place(server, tmp_path), lambda line: None)
    with pytest.raises(
        UsageError, match=r"d has 3 pods in namespace team-a of small already \(d-ps-0, ...\)"
    ):
        make(read(tmp_path), "ours", place(server, tmp_path), lambda line: None)
    assert remove("d", "ours", place(server, tmp_path)) == 0
    assert remove("d", "theirs", place(server, tmp_path)) == 3


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Kubernetes(), ("small", "team-a")),
        (Kubernetes(namespace="mine"), ("small", "mine")),
    ],
)
def test_the_place_is_that_of_the_kubeconfig(
    settings: Kubernetes, expected: tuple[str, str], server: KubeServer, tmp_path: Path
) -> None:
    path = str(server.kubeconfig(tmp_path))
    assert find_location(settings, {"KUBECONFIG": path}) == KubeLocation(path, *expected)


def test_a_missing_kubeconfig_or_context(server: KubeServer, tmp_path: Path) -> None:
    path = str(server.kubeconfig(tmp_path))
    with pytest.raises(
        UsageError, match=r"kubernetes.context: .* has no context big; it has small"
    ):
        find_location(Kubernetes(context="big"), {"KUBECONFIG": path})
    with pytest.raises(
        UsageError, match=f"there is no kubeconfig: {tmp_path}/none does not exist. Set KUBECONFIG"
    ):
        find_location(Kubernetes(), {"KUBECONFIG": f"{tmp_path}/none"})


def test_a_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(
        UsageError,
        match=r"the Kubernetes client is not installed here: `pip install psclust\[kubernetes\]`",
    ):
        KubeApi(KubeLocation(None, None, "mine"))


def test_in_a_pod_its_own_service_account_is_used(tmp_path: Path) -> None:
    environ = {"KUBECONFIG": f"{tmp_path}/none", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert find_location(Kubernetes(namespace="mine"), environ) == KubeLocation(None, None, "mine")
    with pytest.raises(UsageError, match="the kubeconfig of this pod cannot be used"):
        KubeApi(KubeLocation(None, None, "mine"))
