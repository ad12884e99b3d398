"""The preloaded library that narrows wildcard binds, has the kernel notice peers that are gone, and
saves servers request threads."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from servers import (
    ENVIRONMENT,
    PYTHON_SERVER,
    SERVER,
    Ports,
    answers,
    command,
    keepalive_timer,
    listeners,
    root,
)

import psclust
from beds.tiers import longer
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

NATIVE = Path(psclust.__file__).parent / "native"
SOURCES = [NATIVE / f"{name}.c" for name in ("server_shim", "admission", "peer_owner", "variables")]

BIND = """
import os, socket, sys
family, host, only, port = sys.argv[1:]
s = socket.socket(getattr(socket, family))
if s.family == socket.AF_INET6:
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(only))
try:
    s.bind((host, int(port)) if s.family != socket.AF_UNIX else host)
    name = s.getsockname()
    print(name if isinstance(name, str) else name[0])
except OSError as error:
    print(error.strerror)
"""


LOCAL = {"0000000000000000FFFF00000100007F"}  # 127.0.0.1, as the kernel writes it


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: install gcc")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *flags, "-o", library, *SOURCES, "-ldl"], check=True)
    return library


def _environment(shim: Path, **told: object) -> dict[str, str]:
    """With the shim, and `told` but for what is None."""
    kept = {name: str(value) for name, value in told.items() if value is not None}
    return {**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": root(), **kept}


def _said(env: Mapping[str, str], code: str, *arguments: str, cwd: Path | None = None) -> str:
    """What a Python program prints."""
    argv = [sys.executable, "-S", "-c", code, *arguments]
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _command(port: int) -> list[str]:
    return command(SERVER, {"ps": [f"127.0.0.1:{port}"]}, "ps", 0)


@contextlib.contextmanager
def _serving(port: int, env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A bare server that answers."""
    with subprocess.Popen(_command(port), env=env, stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: answers(port))
            yield server
        finally:
            server.kill()


@pytest.mark.parametrize(
    ("family", "host", "only_v6", "narrow", "bound"),
    [
        ("AF_INET", "0.0.0.0", 0, "127.0.0.1", "127.0.0.1"),
        ("AF_INET", "0.0.0.0", 0, "127.0.0.3", "127.0.0.3"),
        ("AF_INET", "127.0.0.2", 0, "127.0.0.1", "127.0.0.2"),
        ("AF_INET6", "::", 0, "127.0.0.1", "::ffff:127.0.0.1"),
        ("AF_INET6", "::", 1, "127.0.0.1", "::1"),
        ("AF_INET6", "::1", 1, "127.0.0.1", "::1"),
        ("AF_INET6", "::ffff:127.0.0.2", 0, "127.0.0.1", "::ffff:127.0.0.2"),
        ("AF_INET", "0.0.0.0", 0, None, "0.0.0.0"),
        ("AF_INET", "0.0.0.0", 0, "", "0.0.0.0"),
        ("AF_INET", "0.0.0.0", 0, "localhost", "0.0.0.0"),
        ("AF_INET6", "::", 0, None, "::"),
        ("AF_INET", "192.0.2.1", 0, "127.0.0.1", "Cannot assign requested address"),
        ("AF_INET", "0.0.0.0", 0, "192.0.2.1", "Cannot assign requested address"),
        ("AF_UNIX", "here", 0, "127.0.0.1", "here"),
    ],
)
def test_only_wildcard_binds_are_narrowed(
    shim: Path,
    ports: Ports,
    tmp_path: Path,
    family: str,
    host: str,
    only_v6: int,
    narrow: str | None,
    bound: str,
) -> None:
    port = str(ports.take())
    env = _environment(shim, PSCLUST_PORT=port, PSCLUST_BIND=narrow)
    assert _said(env, BIND, family, host, str(only_v6), port, cwd=tmp_path) == f"{bound}\n"


def test_the_address_is_read_at_the_time_of_the_bind(shim: Path, ports: Ports) -> None:
    port = ports.take()
    code = f"""
import os, socket
os.environ |= {{"PSCLUST_BIND": "127.0.0.9", "PSCLUST_PORT": "{port}"}}
s = socket.socket()
s.bind(("", {port}))
print(s.getsockname()[0])
"""
    assert _said(_environment(shim), code) == "127.0.0.9\n"


def test_a_server_of_the_program_listens_where_it_asks_to_and_shares_its_port_with_nobody(
    shim: Path, ports: Ports
) -> None:
    env = _environment(shim, PSCLUST_BIND="127.0.0.1", PSCLUST_PORT=ports.take())
    # The second is another task's, in this cluster or another one.
    for port, bound in ((0, "0.0.0.0"), (ports.take(), "Address already in use")):
        assert _said(env, BIND, "AF_INET", "0.0.0.0", "0", str(port)) == f"{bound}\n"


OPTIONS = """
from socket import *
import socket, sys
def options(s):
    if not s.getsockopt(SOL_SOCKET, SO_KEEPALIVE):
        return None
    tcp = (TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_USER_TIMEOUT)
    return [s.getsockopt(IPPROTO_TCP, name) for name in tcp]
server = socket.create_server(("127.0.0.1", int(sys.argv[1])), reuse_port=True)
client = socket.create_connection(server.getsockname())
print(options(client), options(server.accept()[0]))
"""


@pytest.mark.parametrize(
    ("address", "timeout", "seen"),
    [
        ("127.0.0.1:{port}", None, [30, 10, 60_000]),
        ("a.name:{port}", "200", [100, 33, 200_000]),
        ("127.0.0.1:{port}", "nonsense", [30, 10, 60_000]),
        ("127.0.0.1:1{port}", None, None),
        (None, None, None),
    ],
)
def test_the_kernel_watches_the_connections_of_a_cluster_and_no_others(
    shim: Path, ports: Ports, address: str | None, timeout: str | None, seen: list[int] | None
) -> None:
    port, cluster = ports.take(), None
    if address:
        cluster = json.dumps({"ps": [address.format(port=port), "127.0.0.1:9"]})
    env = _environment(shim, PSCLUST_CLUSTER=cluster, PSCLUST_PEER_TIMEOUT=timeout)
    assert _said(env, OPTIONS, str(port)) == f"{seen} {seen}\n"


@pytest.mark.tensorflow
def test_the_kernel_watches_what_a_server_of_tensorflow_accepts(shim: Path, ports: Ports) -> None:
    port = ports.take()
    told = {"PSCLUST_CLUSTER": json.dumps({"ps": [f"127.0.0.1:{port}"]}), **ENVIRONMENT}
    with (
        _serving(port, _environment(shim, **told)),
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        wait_until(
            lambda: keepalive_timer(client.getsockname()[1]),
            what="a keepalive timer on what it has accepted",
        )


@pytest.mark.tensorflow
@pytest.mark.parametrize(("narrow", "addresses"), [("127.0.0.1", LOCAL), (None, {"0" * 32})])
def test_a_server_listens_where_it_is_told(
    shim: Path, ports: Ports, narrow: str | None, addresses: set[str]
) -> None:
    port = ports.take()
    with _serving(port, _environment(shim, PSCLUST_PORT=port, PSCLUST_BIND=narrow)):
        assert listeners(port) == addresses


@pytest.mark.tensorflow
def test_a_server_of_tensorflow_at_a_port_of_its_own_is_narrowed_and_alone_there(
    shim: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    env = _environment(shim, PSCLUST_BIND="127.0.0.1", PSCLUST_PORT=9)
    with _serving(port, env) as server:
        assert listeners(port) == LOCAL
        second = subprocess.run(_command(port), env=env, capture_output=True, timeout=60)
        assert second.returncode != 0
        assert server.poll() is None


@pytest.mark.tensorflow
def test_strangers_leave_a_server_its_last_descriptors(shim: Path, ports: Ports) -> None:
    port, most, kept = ports.take(), 300, 64
    with (
        _serving(port, _environment(shim, PSCLUST_PORT=port)) as server,
        contextlib.ExitStack() as crowd,
    ):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, hard))
        held = [
            crowd.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(most)
        ]
        held[-1].settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            assert held[-1].recv(1) == b""
        assert len(os.listdir(f"/proc/{server.pid}/fd")) <= most - kept
        assert server.poll() is None


THREADS = """
import os, sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from psclust.testing.wait import wait_until

def of_others(file):
    found = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # one that has ended
            if task.name != str(os.getpid()):
                found.append(task.joinpath(file).read_text())
    return found

def all_wait():
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in of_others("stat"))

from psclust.runtime.server_request import parse
server = import_module(sys.argv[1])
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
started = server.start(parse(sys.argv[2:]))
wait_until(all_wait, what="threads that have begun")
# TensorFlow gives its request threads no name; gRPC's, some of which come and go, have names.
print(of_others("comm").count(Path("/proc/self/comm").read_text()), flush=True)
os._exit(0)
"""


@pytest.mark.tensorflow
@pytest.mark.skipif(
    platform.machine() != "x86_64",
    reason="elsewhere the shim leaves the number of threads as it is",
)
@pytest.mark.parametrize("module", [SERVER, *longer(PYTHON_SERVER)])
def test_on_one_core_a_server_takes_requests_with_one_thread_in_place_of_eight(
    shim: Path, ports: Ports, module: str
) -> None:
    def threads(told: Mapping[str, str]) -> int:
        arguments = command(module, {"ps": [f"127.0.0.1:{ports.take()}"]}, "ps", 0)[3:]
        argv = [sys.executable, "-c", THREADS, module, *arguments]
        env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": root(), **told}
        return int(subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout)

    assert threads({}) - threads({"LD_PRELOAD": str(shim)}) == 7


# As TensorFlow has them, in a library of another build: who calls them, and what they do.
OTHER_BUILD = """
#include <string.h>
#define NEW64 "_ZN3tsl6random16ThreadLocalNew64Ev"
#define NEW_SERVICE \\
    "_ZN10tensorflow20NewGrpcWorkerServiceEPNS_10GrpcWorkerEPN4grpc13ServerBuilderENS_" \\
    "24GrpcWorkerServiceOptionsE"
unsigned long new64(void) __asm__(NEW64);
unsigned long new64(void) { return 42; }
void *service(void *result, void *worker, void *builder, void *options) __asm__(NEW_SERVICE);
void *service(void *result, void *worker, void *builder, void *options) { return options; }
int is_as_it_was(void) {
    int options[16];
    for (int i = 0; i < 16; i++)
        options[i] = 8;
    if (service(options, options, options, options) != options || new64() != 42)
        return 0;
    for (int i = 0; i < 16; i++)
        if (options[i] != 8)
            return 0;
    return 1;
}
"""
CALLS = """
import ctypes, os, sys
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
print(ctypes.CDLL(sys.argv[1]).is_as_it_was())
"""


def test_another_build_of_tensorflow_keeps_its_own_functions(shim: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "other.c", tmp_path / "libtensorflow_cc.so.2"
    source.write_text(OTHER_BUILD)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    assert _said(_environment(shim), CALLS, str(library)) == "1\n"


STEPS = """
import os, sys
import tensorflow as tf
server = tf.distribute.Server({"ps": [sys.argv[1]]}, "ps", 0)
with tf.Graph().as_default(), tf.compat.v1.Session(server.target) as session:
    one = tf.compat.v1.placeholder_with_default(1, [])
    print([int(session.run(one)) for _ in range(3)], flush=True)
os._exit(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts: run it as root")
@pytest.mark.tensorflow
def test_no_step_has_the_number_of_an_earlier_one(shim: Path, ports: Ports) -> None:
    # Where TensorFlow would begin each step at the same place, each but the first fails.
    mounted = 'mount --bind /dev/zero /dev/urandom && exec "$@"'
    port = ports.take()
    apart = ["unshare", "--mount", "sh", "-c", mounted, "sh"]
    argv = [*apart, sys.executable, "-c", STEPS, f"127.0.0.1:{port}"]
    env = _environment(shim, PSCLUST_PORT=port)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[1, 1, 1]\n", done.stderr
