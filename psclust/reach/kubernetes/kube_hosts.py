"""Connections to the pods of a run: an exec of its own for each command."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from psclust.errors import HostError, StartError
from psclust.pods.agent_pods import pod_name
from psclust.reach.connections import Input, Progress, Result
from psclust.reach.kubernetes.kube_api import KubeApi
from psclust.reach.kubernetes.kube_exec import ExecStream, PodCommand
from psclust.reach.kubernetes.pod_states import read_state
from psclust.reach.leash import leash
from psclust.reach.listed_hosts import PURPOSE, ListedHosts, shown
from psclust.spec.cluster import Host


class KubeHosts(ListedHosts):
    """`Connections` to pods that run. cluster: the run's name, with which those of the pods begin.
    selector: labels of all of them."""

    def __init__(
        self,
        api: KubeApi,
        cluster: str,
        selector: str,
        hosts: Sequence[Host],
        *,
        partial: bool,
        progress: Progress | None = None,
    ) -> None:
        super().__init__("Kubernetes", hosts, partial=partial, progress=progress)
        self._api, self._cluster, self._selector = api, cluster, selector

    def start(self, host: str, command: str, purpose: str | None = None) -> PodCommand:
        """See `Connections.start`."""
        return PodCommand(host, self._exec(host, command), purpose or PURPOSE)

    def run(
        self,
        host: str,
        command: str,
        *,
        stdin: Input = None,
        timeout_s: float | None = None,
        leashed: bool = False,
    ) -> Result:
        """See `Connections.run`."""
        stream = self._exec(host, leash(command) if leashed else command)
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with PodCommand(host, stream, f"`{shown(command)}` ran there") as process:
            if not leashed:
                threading.Thread(
                    target=_feed, args=(stream, stdin), name=f"exec-input-{host}", daemon=True
                ).start()
            lines = iter(lambda: process.read_line(end), b"")
            output = b"".join(lines)
            return Result(process.wait(end), output, process.stderr)

    def _look_up(self) -> Callable[[str], str]:
        states = {
            pod["metadata"]["name"]: read_state(pod) for pod in self._api.list_pods(self._selector)
        }

        def address(name: str) -> str:
            state = states.get(pod_name(self._cluster, name))
            if state is None or state.address is None:
                said = f"its pod is {state}" if state else "it has no pod"
                raise HostError(f"{name}: {said}.")
            return state.address

        return address

    def _exec(self, host: str, command: str) -> ExecStream:
        try:
            return ExecStream(self._api.exec(pod_name(self._cluster, host), ["sh", "-c", command]))
        except StartError as error:
            raise HostError(f"{host}: {error}") from None


def _feed(stream: ExecStream, stdin: Input) -> None:
    pieces: Iterable[bytes] = [stdin] if isinstance(stdin, bytes) else stdin or ()
    try:
        for piece in pieces:
            stream.send(piece)
    except ConnectionError:
        return  # the command ended without reading all of it
    stream.end_input()
