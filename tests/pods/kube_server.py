"""A Kubernetes API server for tests, over HTTPS with certificates if pods run there. Objects are
kept by kmock, which has no websockets, so `exec` is served by `exec_stream`. A small kubelet in it
runs the pods that clients create."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from exec_stream import serve_exec
from kmock import KubernetesEmulator, resource
from kubernetes_validate import ValidationError
from names_server import NamesServer
from pod_bed import Pod, PodBed
from strict_schemas import check_core

from beds.namespaces import Network
from psclust.agent.access import server_name
from psclust.control.certificates import Authority

TOKEN = "s3cret"
_NAME = "kubernetes"
PODS = resource("", "v1", "pods")
_LOOK_S = 0.02
_STARTED_BY = "psclust.test/kubelet"
# The status of a pod that the kubelet does not start.
Verdict = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]


class Emulator(KubernetesEmulator):
    """kmock, which knows no label selectors."""

    async def _serve_list(self, request: Any) -> Any:
        found = await super()._serve_list(request)
        wanted = dict(
            part.split("=") for part in request.params.get("labelSelector", "").split(",") if part
        )
        return {
            **found,
            "items": [
                each
                for each in found["items"]
                if wanted.items() <= each["metadata"]["labels"].items()
            ],
        }


@dataclass
class KubeServer:
    """refused: (verb, resource) -> HTTP status and message. verdict: see Verdict. protocols: of
    `exec`, best last."""

    bed: PodBed | None
    url: str = ""
    refused: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    verdict: Verdict = lambda pod: None
    protocols: Sequence[str] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    asked: set[tuple[str, str]] = field(default_factory=set)
    execs: int = 0
    running: dict[str, Pod] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._objects = Emulator()
        self._objects.resources[PODS] = {"namespaced": True}
        self._authority = Authority("kubernetes")
        self._lost: set[str] = set()
        self._again: set[str] = set()
        self._grace_s: dict[str, float] = {}
        self._asked_to_end: dict[str, float] = {}
        self._up = threading.Event()
        self._over = asyncio.Event()
        self.error: BaseException | None = None

    # ---- for tests

    def kubeconfig(self, folder: Path, *, token: str = TOKEN) -> Path:
        path = folder / "kubeconfig"
        mine = self._authority.launcher()
        here = {
            "server": self.url,
            "certificate-authority-data": _encoded(mine.authority),
            "tls-server-name": server_name(_NAME),
        }
        cluster = {"name": "small", "cluster": here}
        context = {
            "name": "small",
            "context": {"cluster": "small", "user": "me", "namespace": "team-a"},
        }
        keys = {
            "client-certificate-data": _encoded(mine.certificate),
            "client-key-data": _encoded(mine.key),
        }
        user = {"name": "me", "user": {"token": token, **keys}}
        path.write_text(
            json.dumps(
                {
                    "current-context": "small",
                    "clusters": [cluster],
                    "contexts": [context],
                    "users": [user],
                }
            ),
            encoding="utf-8",
        )
        return path

    def pods(self) -> list[str]:
        """The names of those that the API has."""
        return sorted(name for _, _, name in self._found())

    def commands(self, name: str) -> list[str]:
        """The command lines of all processes in a pod but the first."""
        assert self.bed is not None
        listed = subprocess.run(
            [*self.bed.exec(self.running[name], ["ps", "-eo", "args="])[0]],
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.strip() for line in listed.stdout.splitlines()[1:]]

    def lose(self, name: str) -> None:
        """The node of a pod is gone without a word: packets, and what an exec carries, arrive no
        more."""
        assert self.bed is not None
        self._lost.add(name)
        self.bed.network.cut(self.running[name].host)

    def drain(self, name: str) -> None:
        """As `kubectl drain` ends a pod: TERM to its first process."""
        self.running[name].end(signal.SIGTERM)

    def judge_again(self, name: str) -> None:
        """Ask `verdict` once more about a pod."""
        self._again.add(name)

    # ---- the server

    def run(self) -> None:
        asyncio.run(self._serve())

    def wait_until_up(self) -> None:
        assert self._up.wait(20)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._objects:
            runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=1.0)
            await runner.setup()
            site = web.TCPSite(
                runner, "127.0.0.1", 0, ssl_context=_tls(self._authority) if self.bed else None
            )
            await site.start()
            assert site._server is not None
            port = site._server.sockets[0].getsockname()[1]
            self.url = f"{site.name.partition(':')[0]}://127.0.0.1:{port}"
            self._up.set()
            try:
                while not self._over.is_set():
                    self._look()
                    await asyncio.sleep(_LOOK_S)
            except BaseException as error:
                self.error = error
                raise
            finally:
                await runner.cleanup()
                await asyncio.sleep(0.1)  # TLS takes some turns to close its connections

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        words = request.path.split("/")  # /api/v1/namespaces/NAMESPACE/pods/NAME/exec
        sub = words[7] if len(words) > 7 else ""
        verb = {"POST": "create", "DELETE": "delete"}.get(
            request.method, "get" if len(words) > 6 else "list"
        )
        self.execs += sub == "exec"
        right = (verb, f"pods/{sub}" if sub else "pods")
        self.asked.add(right)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _failure(401, "Unauthorized")
        if right in self.refused:
            return _failure(*self.refused[right])
        if sub == "exec":
            return await self._exec(request, words[6])
        if verb == "create":
            try:
                check_core(await request.json())
            except ValidationError as error:
                return _failure(400, f"strict decoding error: {error.message}")
        if verb == "delete":
            self._grace_s[words[6]] = float(request.query.get("gracePeriodSeconds", 30))
        return await self._objects(request)

    async def _exec(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        await self._wait_if_lost(name)
        if name not in self.running:
            return _failure(404, f'pods "{name}" not found')
        assert self.bed is not None
        pod = self.running[name]
        while pod.main() is None and pod.process.poll() is None:  # it has only just begun
            await asyncio.sleep(_LOOK_S)
        try:
            command, env, folder = self.bed.exec(pod, request.query.getall("command"))
        except OSError:
            return _failure(400, f"container task is not running in {name}")
        return await serve_exec(
            request, self.protocols, command, env, folder, lambda: self._wait_if_lost(name)
        )

    async def _wait_if_lost(self, name: str) -> None:
        while name in self._lost:
            await asyncio.sleep(_LOOK_S)

    # ---- the kubelet

    def _found(self) -> list[tuple[Any, str, str]]:
        objects: Mapping[Any, Any] = self._objects.objects
        return [key for key, each in objects.items() if not each.deleted]

    def _look(self) -> None:
        for key in self._found():
            found, name = self._objects.objects[key], key[2]
            if not found.raw.get("status") or name in self._again:
                self._again.discard(name)
                self._start(found, name)
            elif name in self.running:
                self._see(found, name)
            elif found.raw["metadata"].get("deletionTimestamp"):
                found.delete()

    def _start(self, found: Any, name: str) -> None:
        verdict = self.verdict(found.raw)
        if verdict is not None:
            found.patch({"metadata": {"finalizers": [_STARTED_BY]}, "status": verdict})
            return
        if self.bed is None:
            return
        pod = self.running[name] = self.bed.start_alone(found.raw)
        state = container_status({"running": {}}, ready=True)
        status = {"phase": "Running", "podIP": pod.address, "containerStatuses": [state]}
        found.patch({"metadata": {"finalizers": [_STARTED_BY]}, "status": status})

    def _see(self, found: Any, name: str) -> None:
        pod, code = self.running[name], self.running[name].process.poll()
        if found.raw["metadata"].get("deletionTimestamp"):
            if name not in self._asked_to_end:
                pod.end(signal.SIGTERM)
            began = self._asked_to_end.setdefault(name, time.monotonic())
            if code is None and time.monotonic() - began < self._grace_s[name]:
                return
            assert self.bed is not None
            self.bed.remove(pod)
            del self.running[name], self._asked_to_end[name]
            found.delete()
        elif code is not None and found.raw["status"]["phase"] == "Running":
            reason, phase = ("Error", "Failed") if code else ("Completed", "Succeeded")
            state = container_status({"terminated": {"exitCode": code, "reason": reason}})
            found.patch({"status": {"phase": phase, "containerStatuses": [state]}})


def container_status(state: Mapping[str, Any], *, ready: bool = False) -> Mapping[str, Any]:
    """Of the container of a pod."""
    known = {"name": "task", "restartCount": 0, "image": "a", "imageID": "a"}
    return {**known, "state": state, "ready": ready}


def _tls(authority: Authority) -> ssl.SSLContext:
    """Both sides show a certificate."""
    own = authority.agent(_NAME)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=own.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    with tempfile.NamedTemporaryFile() as file:
        file.write((own.key + own.certificate).encode())
        file.flush()
        context.load_cert_chain(file.name)
    return context


def _encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


def _failure(status: int, message: str) -> web.Response:
    return web.json_response(
        {"kind": "Status", "status": "Failure", "code": status, "message": message}, status=status
    )


@contextmanager
def kube_server(
    folder: Path, count: int, claims: Mapping[str, Path] | None = None, hidden: Sequence[Path] = ()
) -> Iterator[KubeServer]:
    """For at most `count` pods in all. `claims`, `hidden`: see PodBed. Everything is gone at the
    end."""
    hosts = [f"p{number}" for number in range(1, count + 1)]
    (folder / "image").mkdir(exist_ok=True)
    with Network(hosts) as network, NamesServer(network.gateway) as names:
        bed = PodBed(folder, network, hosts, names, claims or {}, {}, hidden)
        with api_server(bed) as server:
            yield server


@contextmanager
def api_server(bed: PodBed | None = None) -> Iterator[KubeServer]:
    """Without a bed, no pod ever runs. Fails if the server did."""
    server = KubeServer(bed)
    thread = threading.Thread(target=server.run)
    thread.start()
    server.wait_until_up()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
        for pod in server.running.values():
            assert bed is not None
            bed.remove(pod)
    assert server.error is None
