"""Clusters to train on: all tasks inside this process where that is enough, or a process each that
can be killed and started again."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fork_clients import SERVER, fork_client, fork_server
from fork_training import Training
from trained import Trained, read_checkpoint

from psclust.placement.placement_settings import NONE, PlacementSettings
from psclust.spec.cluster import ClusterSpec, Task
from psclust.testing.wait import PATIENCE_S, wait_until
from psclust.train.program_options import Options
from psclust.train.task_context import TaskContext

# Most tests look at single variables, and know where they are. What psclust partitions by itself
# is in test_auto_partitioned.py.
PLAIN = PlacementSettings("balanced", max_shard_bytes=NONE)


@pytest.fixture
def marked(request: pytest.FixtureRequest) -> None:
    """For a fixture that starts TensorFlow: `make check` leaves its tests out by their mark."""
    if request.node.get_closest_marker("tensorflow") is None:
        pytest.fail("a test that starts TensorFlow is to be marked so: pytest.mark.tensorflow")


@pytest.fixture
def free_cluster() -> Iterator[Callable[..., ClusterSpec]]:
    """Makes cluster specs of 127.0.0.1 and ports that stay free: `free_cluster(ps=2, worker=2)`."""
    with ExitStack() as held:

        def address() -> str:
            holder = held.enter_context(socket.socket())
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{holder.getsockname()[1]}"

        yield lambda **counts: ClusterSpec(
            {job: tuple(address() for _ in range(count)) for job, count in counts.items()}
        )


@pytest.fixture
def train_here(
    marked: None,
    free_cluster: Callable[..., ClusterSpec],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Trained]:
    """Trains a program and returns what comes out; on a cluster in a process of its own, whose
    threads are the clients.

    train_here(program, replication=None, sync=False, ps=2, workers=2, placement=PLAIN, folder=None,
    devices=None, backup_workers=0, max_staleness=None, here=False, **options); replication None is
    one process alone. Each worker has so many CPU `devices`, or as a list says. The model's folder
    is named after the way of training unless `folder` says otherwise. `here`: in this process also
    on a cluster, for a program whose traces the test looks at.
    """
    for name, value in SERVER.items():
        monkeypatch.setenv(name, value)

    def train(
        program: Any,
        replication: str | None = None,
        *,
        sync: bool = False,
        ps: int = 2,
        workers: int = 2,
        chief: int = 0,
        placement: PlacementSettings = PLAIN,
        folder: str | None = None,
        devices: int | list[int] | None = None,
        backup_workers: int = 0,
        max_staleness: int | None = None,
        here: bool = False,
        **options: Any,
    ) -> Trained:
        model_dir = tmp_path / (folder or f"{replication}-{sync}-{ps}-{workers}-{devices}")

        def context(task: Task, count: int | None = None) -> TaskContext:
            control = {"backup_workers": backup_workers, "max_staleness": max_staleness}
            return TaskContext(
                task, cluster, replication, sync, placement=placement, device_count=count, **control
            )

        def training(*contexts: TaskContext) -> Training:
            return Training(program, contexts, Options("", **options), model_dir)

        if replication is None:
            training(TaskContext(device_count=devices)).run()
            return read_checkpoint(model_dir)
        if replication == "in-graph":
            cluster = free_cluster(ps=ps, worker=workers, client=1)
            served, contexts = ("ps", "worker"), [context(Task("client", 0))]
        else:
            cluster = free_cluster(ps=ps, chief=chief, worker=workers)
            tasks = [task for task in cluster.tasks() if task.job != "ps"]
            counts = devices if isinstance(devices, list) else [devices] * len(tasks)
            served, contexts = (
                ("ps",),
                [context(task, count) for task, count in zip(tasks, counts, strict=True)],
            )
        with _serving(cluster, *served, devices=devices if replication == "in-graph" else None):
            training(*contexts).run() if here else training(*contexts).run_apart()
        return read_checkpoint(model_dir)

    return train


@contextmanager
def _serving(cluster: ClusterSpec, *jobs: str, devices: int | None = None) -> Iterator[None]:
    """A bare server for every task of some jobs, each a process: a server that is a thread cannot
    be stopped, and keeps 30 MB."""
    servers = [_serve(cluster, task, devices or 1) for task in cluster.tasks() if task.job in jobs]
    try:
        yield
    finally:
        for server in servers:
            server.kill()
            server.join()


def _serve(cluster: ClusterSpec, task: Task, devices: int = 1, *, alone: bool = False) -> Any:
    address = cluster.address(task)
    assert address is not None
    known = {task.job: {task.index: address}} if alone else cluster.as_dict()
    server = fork_server(json.dumps(known), task.job, task.index, devices)
    wait_until(lambda: _answers(address) or not server.is_alive(), what=f"{task} at {address}")
    assert server.is_alive(), f"{task} ended; it was to serve at {address}"
    return server


@pytest.fixture
def alone_servers(marked: None) -> Iterator[Callable[[ClusterSpec], None]]:
    """Starts a bare server for every task of a cluster, each of which knows itself alone."""
    servers: list[Any] = []

    def start(cluster: ClusterSpec) -> None:
        servers.extend(_serve(cluster, task, alone=True) for task in cluster.tasks())

    yield start
    for server in servers:
        server.kill()
        server.join()


# ---- tasks in processes


@pytest.fixture
def alone(marked: None, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs `python -m psclust.train` with some arguments and without a cluster: (exit code,
    output)."""

    def run(*arguments: str, **environment: str) -> tuple[int, str]:
        log = tmp_path / "alone.log"
        process = fork_client(list(arguments), environment, log)
        process.join(PATIENCE_S)
        return process.exitcode, log.read_text(encoding="utf-8", errors="replace")

    return run


@dataclass
class Processes:
    """A cluster with a process for each task: bare servers, and clients forked from one process
    that has imported TensorFlow. workers: how many there are at first; None: all."""

    folder: Path
    cluster: ClusterSpec
    replication: str
    sync: bool
    arguments: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    workers: int | None = None
    servers: dict[str, Any] = field(default_factory=dict)
    clients: dict[str, Any] = field(default_factory=dict)
    _attempts: dict[str, int] = field(default_factory=dict)

    def start_all(self) -> None:
        """All that are not there yet."""
        in_graph = self.replication == "in-graph"
        tasks = list(self.now.tasks())
        for task in tasks:
            is_server = task.job == "ps" or (in_graph and task.job == "worker")
            if is_server and str(task) not in self.servers:
                self.serve(str(task))
        for task in tasks:
            if str(task) not in self.servers:
                self.start(str(task))

    @property
    def now(self) -> ClusterSpec:
        """With the workers that there are now."""
        jobs = self.cluster.as_dict()
        return ClusterSpec(
            {
                job: tuple(each[: self.workers] if job == "worker" else each)
                for job, each in jobs.items()
            }
        )

    def signal(self, task: str, number: int) -> None:
        """To a client."""
        os.kill(self.clients[task].pid, number)

    def serve(self, task: str) -> None:
        """Starts a bare server, which knows itself alone if the data is handed out, and waits until
        it answers."""
        own = Task.parse(task)
        alone = self.environment.get("PSCLUST_INPUT") == "handed_out"
        self.servers[task] = _serve(self.cluster, own, alone=alone)

    def start(self, task: str) -> None:
        """Starts a client."""
        self._attempts[task] = self._attempts.get(task, 0) + 1
        environment = {
            "PSCLUST_TASK": task,
            "PSCLUST_CLUSTER": json.dumps(self.now.as_dict()),
            "PSCLUST_RUN_DIR": str(self.folder),
            "PSCLUST_REPLICATION": self.replication,
            "PSCLUST_UPDATE": "sync" if self.sync else "async",
            "PSCLUST_PROGRESS": str(self._file(task, "json")),
            "PSCLUST_PLACEMENT": PLAIN.render(),
            **self.environment,
        }
        self.clients[task] = fork_client(self.arguments, environment, self._file(task, "log"))

    def _file(self, task: str, kind: str) -> Path:
        return self.folder / f"{task.replace(':', '-')}.{self._attempts[task]}.{kind}"

    def kill(self, task: str) -> None:
        process = self.clients.get(task) or self.servers[task]
        process.kill()
        process.join()

    def replace(self, task: str) -> None:
        """Kills it and starts it again."""
        self.kill(task)
        (self.serve if task in self.servers else self.start)(task)

    def log(self, task: str) -> str:
        return self._file(task, "log").read_text(encoding="utf-8", errors="replace")

    def step(self, task: str) -> int:
        """The step that a client's current attempt says it has reached."""
        with suppress(FileNotFoundError):
            return int(json.loads(self._file(task, "json").read_text(encoding="utf-8"))["step"])
        return 0

    def reach(self, task: str, step: int) -> None:
        """Waits until a client's current attempt has reached the step."""

        def reached() -> bool:
            ended = self.clients[task].exitcode
            if self.step(task) >= step:
                return True
            assert ended is None, f"{task} ended before step {step}:\n{self.log(task)}"
            return False

        wait_until(reached, what=f"{task} at step {step}")

    def end(self, deadline_s: float = PATIENCE_S) -> dict[str, int]:
        """Waits for all clients; their exit codes."""
        try:
            wait_until(
                lambda: all(client.exitcode is not None for client in self.clients.values()),
                deadline_s,
                what="the end of all clients",
            )
        except TimeoutError as error:
            raise TimeoutError(
                f"{error}\n" + "\n".join(f"--- {task}\n{self.log(task)}" for task in self.clients)
            ) from None
        return {task: client.exitcode for task, client in self.clients.items()}

    def end_well(self) -> Trained:
        """What is trained when all clients have ended, each with exit code 0."""
        assert self.end() == dict.fromkeys(self.clients, 0)
        return self.trained()

    def trained(self) -> Trained:
        return read_checkpoint(self.folder / "model")

    def close(self) -> None:
        for process in (*self.servers.values(), *self.clients.values()):
            process.kill()
        for process in (*self.servers.values(), *self.clients.values()):
            process.join()


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def processes(
    marked: None, free_cluster: Callable[..., ClusterSpec], tmp_path: Path
) -> Iterator[Callable[..., Processes]]:
    """Starts `processes(replication, sync, "module:program", *options, ps=2, worker=2,
    environment={}, log_seconds=None, save_seconds=None, **params)`; ends whatever is left."""
    with ExitStack() as started:

        def start(
            replication: str,
            sync: bool,
            *arguments: str,
            ps: int = 2,
            worker: int = 2,
            workers_at_first: int | None = None,
            environment: Mapping[str, str] | None = None,
            log_seconds: float | None = None,
            save_seconds: float | None = None,
            **params: Any,
        ) -> Processes:
            client = {"client": 1} if replication == "in-graph" else {}
            cluster = free_cluster(ps=ps, worker=worker, **client)
            seconds = {"--log-seconds": log_seconds, "--save-seconds": save_seconds}
            given = [(name, value) for name, value in seconds.items() if value is not None]
            given += [("--set", _changed(*param)) for param in params.items()]
            words = [*arguments, *(str(word) for option in given for word in option)]
            made = Processes(
                tmp_path, cluster, replication, sync, words, environment or {}, workers_at_first
            )
            started.callback(made.close)
            made.start_all()
            return made

        yield start


def _changed(param: str, value: Any) -> str:
    return f"{param}={str(value).lower() if isinstance(value, bool) else value}"
