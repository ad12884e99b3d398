"""Connections to the pods of a run: an exec of its own for each command."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psclust.errors import HostError, StartError
from psclust.pods.agent_pods import pod_name
from psclust.reach.kubernetes.kube_api import KubeApi
from psclust.reach.kubernetes.kube_exec import ExecStream, PodCommand
from psclust.reach.listed_hosts import ListedHosts
from psclust.spec.cluster import Host


class KubeHosts(ListedHosts):
    """`Connections` to pods that run. cluster: the run's name, with which those of the pods
    begin."""

    def __init__(self, api: KubeApi, cluster: str, hosts: Sequence[Host], *, partial: bool) -> None:
        super().__init__("Kubernetes", hosts, partial=partial)
        self._api, self._cluster = api, cluster

    def start(self, host: str, command: str, purpose: str, *, outlived: bool = False) -> PodCommand:
        """See `Connections.start`."""
        try:
            stream = self._api.exec(pod_name(self._cluster, host), ["sh", "-c", command])
        except StartError as error:
            raise HostError(f"{host}: {error}") from None
        return PodCommand(host, ExecStream(stream), purpose)

    def _look_up(self) -> Callable[[str], str]:
        states = self._api.pod_states(self._cluster)

        def address(name: str) -> str:
            state = states.get(pod_name(self._cluster, name))
            if state is None or state.address is None:
                said = f"its pod is {state}" if state else "it has no pod"
                raise HostError(f"{name}: {said}.")
            return state.address

        return address
