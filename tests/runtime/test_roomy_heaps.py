"""Heaps that are not given back: a thread of a server's process that takes memory again that it has
freed finds it there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from psclust.testing.free_ports import free_ports

pytestmark = pytest.mark.process

BLOCKS, BLOCK = 800, 64 << 10
# A fault brings a page or a few.
MANY = BLOCKS * BLOCK // 4096 // 16

# Executes its argument, then prints the page faults of the last of three rounds, in a thread, as
# servers' are.
SCRIPT = f"""
import ctypes, resource, sys, threading

exec(sys.argv[1])
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def work():
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        blocks = [libc.malloc({BLOCK}) for _ in range({BLOCKS})]
        for block in blocks:
            ctypes.memset(block, 1, {BLOCK})
        for block in blocks:
            libc.free(block)
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before
    print(faults)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
SERVERS = {
    "bare": """
from psclust.runtime.server_def import server_def
from psclust.runtime.tensorflow_library import load_library
load_library().start_server(server_def({"ps": {0: ADDRESS}}, "ps", 0))
""",
    "in Python": """
from psclust.runtime import bare_server, python_server
python_server.start(bare_server.Request({"ps": {0: ADDRESS}}, "ps", 0))
""",
    "of a program": """
from psclust.spec.cluster import ClusterSpec, Task
from psclust.train.session import start_server
from psclust.train.task_context import TaskContext
start_server(TaskContext(Task("ps", 0), ClusterSpec({"ps": (ADDRESS,)})))
""",
}


def faults(code: str, **environ: str) -> int:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
    }
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        code.replace("ADDRESS", f"'127.0.0.1:{free_ports(1)}'"),
    ]
    return int(
        subprocess.run(
            command, env=environment | environ, check=True, capture_output=True, text=True
        ).stdout
    )


@pytest.mark.parametrize("server", SERVERS)
def test_a_thread_keeps_its_heap(server: str) -> None:
    assert faults("") > MANY
    assert faults(SERVERS[server]) < MANY // 10


def test_the_users_own_settings_stay() -> None:
    # A heap that the thread shares with one of the server's is not given back while that one holds
    # its end.
    assert any(faults(SERVERS["bare"], MALLOC_TRIM_THRESHOLD_="131072") > MANY for _ in range(5))
