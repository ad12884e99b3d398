"""Calls of the Kubernetes API: pods, and commands in them. Errors name what the user can do."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from psclust.errors import PsclustError, StartError, UsageError
from psclust.pods.agent_pods import RUN_LABEL
from psclust.pods.job_object import CONTAINER, labels
from psclust.reach.kubernetes.pod_states import PodState, read_state
from psclust.spec.host_keys import Kubernetes

_TIMEOUTS_S = (5.0, 30.0)  # to connect, and for the reply
_ACCOUNT = Path(
    "/var/run/secrets/kubernetes.io/serviceaccount"
)  # where Kubernetes mounts a pod's own
_RIGHTS = "Ask for the rights in deploy/kubernetes-rbac.yaml (docs/kubernetes.md)."


@dataclass(frozen=True, slots=True)
class KubeLocation:
    """Which namespace of which Kubernetes cluster. kubeconfig: as in KUBECONFIG; None inside of a
    pod, whose service account is used."""

    kubeconfig: str | None
    context: str | None
    namespace: str

    def __str__(self) -> str:
        return f"namespace {self.namespace}" + (f" of {self.context}" if self.context else "")


def find_location(settings: Kubernetes, environ: Mapping[str, str]) -> KubeLocation:
    """Where `settings` and the kubeconfig lead. Raises UsageError where there is none, or no such
    context."""
    path = environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    if not any(os.path.exists(part) for part in path.split(os.pathsep)):
        if is_in_cluster(environ):
            own = (
                (_ACCOUNT / "namespace").read_text(encoding="ascii").strip()
                if (_ACCOUNT / "namespace").exists()
                else "default"
            )
            return KubeLocation(None, None, settings.namespace or own)
        raise UsageError(
            f"there is no kubeconfig: {path} does not exist. Set KUBECONFIG, or have the tool of "
            "your Kubernetes provider write one; `kubectl get pods` shows whether it works."
        )
    kube_config = _import_client().config
    try:
        contexts, current = kube_config.list_kube_config_contexts(config_file=path)
    except kube_config.ConfigException as error:
        raise UsageError(f"the kubeconfig {path} cannot be used: {error}.") from None
    wanted = settings.context or (current or {}).get("name")
    found = next((context for context in contexts if context["name"] == wanted), None)
    if found is None:
        names = ", ".join(context["name"] for context in contexts)
        raise UsageError(
            f"kubernetes.context: {path} has no context {wanted}; it has {names or 'none'}."
        )
    return KubeLocation(
        path, found["name"], settings.namespace or found["context"].get("namespace") or "default"
    )


def is_in_cluster(environ: Mapping[str, str]) -> bool:
    """Whether this process is in a pod."""
    return "KUBERNETES_SERVICE_HOST" in environ


class KubeApi:
    """Any thread may call it. Raises StartError, UsageError."""

    def __init__(self, location: KubeLocation) -> None:
        self.location = location
        self._kubernetes = _import_client()
        self._configuration = _load_configuration(location, _changed(location.kubeconfig))
        self._core = self._new_core()

    def create_pod(self, pod: Mapping[str, Any]) -> None:
        with self._refusing("create", "a pod"), _refusing_keys():
            # A key that Kubernetes does not know is a mistake, not one to leave out.
            self._core.create_namespaced_pod(
                self.location.namespace,
                dict(pod),
                field_validation="Strict",
                _request_timeout=_TIMEOUTS_S,
            )

    def pod_states(self, cluster: str, run: str | None = None) -> dict[str, PodState]:
        """Name -> state of the pods of a cluster, or of one run of it, sorted by name."""
        with self._refusing("list", "pods"):
            found = self._core.list_namespaced_pod(
                self.location.namespace,
                label_selector=selector(cluster, run),
                _request_timeout=_TIMEOUTS_S,
            )
        pods = self._core.api_client.sanitize_for_serialization(found).get("items") or ()
        states = {str(pod["metadata"]["name"]): read_state(pod) for pod in pods}
        return {name: states[name] for name in sorted(states)}

    def delete_pod(self, name: str, grace_s: int) -> None:
        """If it is there."""
        with self._refusing("delete", f"the pod {name}", but=404):
            self._core.delete_namespaced_pod(
                name,
                self.location.namespace,
                grace_period_seconds=grace_s,
                _request_timeout=_TIMEOUTS_S,
            )

    def exec(self, pod: str, command: Sequence[str]) -> Any:
        """A command in a pod's container, as a websocket of the client
        (`kubernetes.stream.ws_client.WSClient`)."""
        # A client of its own: for this call it is changed while other threads may use theirs.
        core = self._new_core()
        with self._refusing("exec", f"a command in the pod {pod}"):
            return self._kubernetes.stream.stream(
                core.connect_get_namespaced_pod_exec,
                pod,
                self.location.namespace,
                container=CONTAINER,  # beside others, such as that of a service mesh
                command=list(command),
                stdin=True,
                stdout=True,
                stderr=True,
                tty=False,
                binary=True,
                _preload_content=False,
            )

    def _new_core(self) -> Any:
        client = self._kubernetes.client
        return client.CoreV1Api(client.ApiClient(self._configuration))

    @contextmanager
    def _refusing(self, verb: str, what: str, *, but: int | None = None) -> Iterator[None]:
        """Errors of the client become ours, except for the status `but`."""
        from urllib3.exceptions import HTTPError  # comes with the client

        failures = (self._kubernetes.client.exceptions.OpenApiException, HTTPError, OSError)
        try:
            yield
        except failures as error:
            status, said = _answer_of(error)
            if status is None or status != but:
                raise self._error(status, said, verb, what) from None

    def _error(self, status: int | None, said: str, verb: str, what: str) -> PsclustError:
        where = str(self.location)
        if status is None:
            host = self._configuration.host
            return StartError(
                f"Kubernetes at {host} does not answer: {said}. Is it the right context, "
                "and is the network up?"
            )
        if status == 401:
            return UsageError(
                f"Kubernetes does not accept your log-in to {where}: {said}. Log in again; "
                "`kubectl get pods` must work."
            )
        if status == 403 and "quota" not in said:
            right = "create and get pods/exec" if verb == "exec" else f"{verb} pods"
            return UsageError(f"Kubernetes does not let you {right} in {where}: {said}. {_RIGHTS}")
        if status == 404 and verb == "create":
            return UsageError(
                f"kubernetes.namespace: there is no {where}: {said}. Name one that exists."
            )
        return StartError(f"Kubernetes refuses to {verb} {what} in {where}: {said}.")


def selector(cluster: str, run: str | None = None) -> str:
    """Of the pods of a cluster, or of one run of it."""
    wanted = labels(cluster) | ({RUN_LABEL: run} if run is not None else {})
    return ",".join(f"{name}={value}" for name, value in wanted.items())


def _changed(kubeconfig: str | None) -> tuple[int, ...]:
    """When its files were changed last: a log-in may write them anew during a run."""
    paths = kubeconfig.split(os.pathsep) if kubeconfig else ()
    return tuple(os.stat(path).st_mtime_ns for path in paths if os.path.exists(path))


@lru_cache
def _load_configuration(location: KubeLocation, changed: tuple[int, ...]) -> Any:
    """Once in a process, as a log-in may call a program of its own each time."""
    kubernetes = _import_client()
    config, found = kubernetes.config, kubernetes.client.Configuration()
    found.retries = 1
    try:
        if location.kubeconfig is None:
            config.load_incluster_config(client_configuration=found)
        else:
            config.load_kube_config(
                location.kubeconfig, location.context, found, persist_config=False
            )
    except config.ConfigException as error:
        raise UsageError(
            f"the kubeconfig {location.kubeconfig or 'of this pod'} cannot be used: {error}."
        ) from None
    return found


@lru_cache
def _file_in_memory(
    content: str | bytes, folder: str | None = None, force_recreate: bool = False
) -> str:
    """In place of the client's own: it writes the keys of a kubeconfig to files that it removes
    when the interpreter exits, which a supervisor never does, or a process that is killed."""
    memory = os.memfd_create("kubeconfig")
    os.write(memory, content.encode() if isinstance(content, str) else content)
    return f"/proc/self/fd/{memory}"


@contextmanager
def _refusing_keys() -> Iterator[None]:
    """Newer clients check objects before they send them."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"][1:])
        raise UsageError(
            f"kubernetes.pod: {key}: {first['msg']}; `kubectl explain pod.spec` has the keys."
        ) from None


def _answer_of(error: Exception) -> tuple[int | None, str]:
    """The HTTP status of an answer, None if there was none, and the server's words."""
    text = str(getattr(error, "reason", None) or error)
    status = getattr(error, "status", None) or None
    body = getattr(error, "body", None)
    handshake = re.match(r"Handshake status (\d+) (.*?) -\+-\+- .*? -\+-\+- (.*)", text, re.DOTALL)
    if handshake:
        status, text, body = (
            int(handshake[1]),
            handshake[2],
            handshake[3].removeprefix("b'").removesuffix("'"),
        )
    with suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(body or "")["message"])
    return status, " ".join(text.split()).rstrip(".")[:500]


def _import_client() -> Any:
    """Raises UsageError where it is not installed."""
    try:
        import kubernetes
        import kubernetes.stream
        from kubernetes.config import kube_config
    except ImportError:
        raise UsageError(
            "the Kubernetes client is not installed here: `pip install psclust[kubernetes]`."
        ) from None
    kube_config._create_temp_file_with_content = _file_in_memory
    return kubernetes
