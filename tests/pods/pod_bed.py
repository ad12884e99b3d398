"""Pods on this machine: each a network, mount, host name and process namespace, in which the
container's command is process 1."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from names_server import NamesServer

from beds.namespaces import Network, separate
from beds.processes import running
from beds.sshd import find_program

# $1: host name, $2: resolv.conf, $3: volumes as `source:path` lines, of which one without a source
# is empty, others: the command.
_BOOT = """
set -e
hostname "$1"; mount --make-rprivate /; mount --bind "$2" /etc/resolv.conf
mount -t tmpfs tmpfs /mnt
echo "$3" | while IFS=: read -r source path; do
    [ -n "$path" ] || continue
    [ -n "$source" ] || { mount -t tmpfs tmpfs "$path"; continue; }
    mkdir -p "$path"; mount --bind "$source" "$path"
done
shift 3
exec "$@"
"""


@dataclass
class Pod:
    """One pod with one container; `restarts`: of its container, in place."""

    name: str
    job: str
    index: int
    address: str
    template: Mapping[str, Any]
    host: str
    process: subprocess.Popen[bytes]
    logs: list[Path] = field(default_factory=list)
    restarts: int = 0

    @property
    def container(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.template["spec"]["containers"][0]
        return found

    @property
    def output(self) -> str:
        return "".join(log.read_text(encoding="utf-8", errors="replace") for log in self.logs)

    @property
    def ready(self) -> bool:
        if self.process.poll() is not None:
            return False
        probe = self.container.get("readinessProbe")
        if probe is None:
            return True
        try:
            socket.create_connection((self.address, probe["tcpSocket"]["port"]), 0.5).close()
        except OSError:
            return False
        return True

    def main(self) -> psutil.Process | None:
        """Process 1 of the pod."""
        with suppress(psutil.Error):
            process = running(self.process)
            for child in process.children() if process else ():
                return child
        return None

    def task(self) -> psutil.Process | None:
        """The process of its task, once that has been started."""
        with suppress(psutil.Error):
            main = self.main()
            for child in main.children() if main else ():
                return child
        return None

    def end(self, number: signal.Signals) -> None:
        with suppress(psutil.Error):
            main = self.main()
            if main is not None:
                main.send_signal(number)


class PodBed:
    """Starts pods of one cluster. `claims`: PersistentVolumeClaim -> folder; `secrets`: Secret ->
    its keys; `hidden`: folders that pods do not see."""

    def __init__(
        self,
        folder: Path,
        network: Network,
        hosts: Sequence[str],
        names: NamesServer,
        claims: Mapping[str, Path],
        secrets: Mapping[str, Mapping[str, str]],
        hidden: Sequence[Path] = (),
    ) -> None:
        self.folder = folder
        self.network = network
        self.names = names
        self._free = list(hosts)
        self._claims = claims
        self._secrets = secrets
        self._hidden = hidden
        (folder / "resolv.conf").write_text(names.resolv_conf(), encoding="utf-8")

    def start(self, job: str, index: int, template: Mapping[str, Any], subdomain: str) -> Pod:
        """A new pod, at an address that no pod has had."""
        pod = self._place(f"{job}-{index}", job, index, template)
        self.names.pods[f"{pod.name}.{subdomain}"] = pod.address
        self.restart(pod)
        return pod

    def start_alone(self, found: Mapping[str, Any]) -> Pod:
        """A pod that belongs to no Job."""
        pod = self._place(found["metadata"]["name"], "", 0, found)
        self.restart(pod)
        return pod

    def _place(self, name: str, job: str, index: int, template: Mapping[str, Any]) -> Pod:
        host = self._free.pop(0)
        address = self.network.address(host)
        return Pod(name, job, index, address, template, host, None)  # type: ignore[arg-type]

    def exec(self, pod: Pod, command: Sequence[str]) -> tuple[list[str], dict[str, str], Path]:
        """As `kubectl exec`: the command line, environment and working folder for a process in the
        pod, whose parent is not there."""
        main = pod.main()
        if main is None:
            raise OSError(f"{pod.name} has no process any more")
        spaces = ("--pid", "--mount", "--uts", "--net")
        enter = [find_program("nsenter"), f"--target={main.pid}", *spaces]
        return [*enter, *command], self._environment(pod), self.folder / "image"

    def restart(self, pod: Pod) -> None:
        """Start the container of a pod, which keeps its address."""
        log = self.folder / f"{pod.name}-{pod.host}-{len(pod.logs)}.log"
        pod.logs.append(log)
        names = str(self.folder / "resolv.conf")
        boot = ["sh", "-c", _BOOT, "boot", pod.name, names, self._volumes(pod)]
        with log.open("wb") as file:
            pod.process = subprocess.Popen(
                [*self.network.command(pod.host), *separate(), *boot, *pod.container["command"]],
                env=self._environment(pod),
                cwd=self.folder / "image",
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def remove(self, pod: Pod) -> None:
        """Kill what is left of a pod; its address answers no more."""
        if running(pod.process):
            os.killpg(pod.process.pid, signal.SIGKILL)
        pod.process.wait()
        self.network.cut(pod.host)

    def _volumes(self, pod: Pod) -> str:
        claims = {
            volume["name"]: volume["persistentVolumeClaim"]["claimName"]
            for volume in pod.template["spec"].get("volumes", ())
        }
        mounts = [
            f"{self._claims[claims[mount['name']]]}:{mount['mountPath']}"
            for mount in pod.container.get("volumeMounts", ())
        ]
        return "\n".join([*mounts, *(f":{path}" for path in self._hidden)])

    def _environment(self, pod: Pod) -> dict[str, str]:
        # What is in /mnt is gone with the pod, as a container's own files are.
        path = f"{sys.prefix}/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        env = {"PATH": path, "HOME": str(self.folder) if pod.job else "/mnt", "TMPDIR": "/mnt"}
        for source in pod.container.get("envFrom", ()):
            env |= self._secrets[source["secretRef"]["name"]]
        for entry in pod.container.get("env", ()):
            # The only field that a manifest refers to is a label with an id.
            env[entry["name"]] = entry.get("value", "5a1f")
        return env | {"JOB_COMPLETION_INDEX": str(pod.index)}
