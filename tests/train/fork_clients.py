"""Clients and bare servers in processes of their own, forked from one that has imported TensorFlow.
A module by itself, because what is forked is found by its module's name, and every folder's
conftest has the same."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Ports are held by a bound socket for as long as a test runs; servers share them with it.
SERVER = {
    "TF_GRPC_REUSE_PORT": "1",
    "TF_GRPC_WORKER_CACHE_QUEUES": "4",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
}

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["preloaded"])


def fork(target: Any, *args: Any) -> Any:
    """Call `target` in a process that has loaded the modules of `preloaded`, which its fork server
    finds by PYTHONPATH alone."""
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), path] if path else [str(HERE)])
    forkserver.ensure_running()
    if path is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = path
    process = FORKS.Process(target=target, args=args, daemon=True)
    process.start()
    return process


def run_program(arguments: list[str], environment: dict[str, str], log: str) -> None:
    """What a forked client does: `python -m psclust.train`, with its output in a file."""
    from psclust.runtime.tensorflow_patches import patch
    from psclust.train.command_line import main

    patch(None, {})  # as the launcher does: many tests kill their clients
    os.chdir(HERE)
    os.environ.update(SERVER | environment)
    with open(log, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    sys.exit(main(arguments, environment))


def fork_client(arguments: list[str], environment: dict[str, str], log: Path) -> Any:
    return fork(run_program, arguments, environment, str(log))


def run_server(arguments: list[str]) -> None:
    """What a forked server does: `python -m psclust.runtime.bare_server`."""
    from psclust.runtime.bare_server import serve

    os.environ.update(SERVER)
    serve(arguments)


def fork_server(cluster: str, job: str, task: int, devices: int = 1) -> Any:
    """Starts a bare server of the cluster spec in JSON, with so many CPU devices; it may take a
    moment to answer."""
    arguments = ["--cluster", cluster, "--job", job, "--task", str(task)]
    return fork(run_server, [*arguments, "--device-count", str(devices)])
