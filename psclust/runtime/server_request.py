"""A server from its command line to its end, and why it did not start: for the two kinds of
servers, `bare_server` and `python_server`."""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from psclust.errors import PsclustError, UsageError
from psclust.runtime.linux_process import wait_for_a_signal
from psclust.runtime.server_def import Request, parse_cluster
from psclust.spec.whole_number import whole_number


def serve(argv: Sequence[str], start: Callable[[Request], object]) -> NoReturn:
    """Serve what the command line asks for until killed; `start` returns the server. A failure is
    one sentence on stderr and the exit code of its kind: 2 for a wrong request, 3 for a server that
    could not start."""
    try:
        server = start(parse(argv))
    except PsclustError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        # Not sys.exit: the library's static destructors must not run while threads of a half-made
        # server do.
        os._exit(error.exit_code)
    wait_for_a_signal(server)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")


def parse(argv: Sequence[str]) -> Request:
    """Parse a command line. Raises UsageError."""
    parser = _Parser(
        prog="psclust.runtime.bare_server", description="Serve one task of a TensorFlow cluster."
    )
    parser.add_argument(
        "--cluster",
        required=True,
        help='the cluster spec in JSON: {"ps": ["host:port"], "worker": [...]}',
    )
    parser.add_argument("--job", required=True, help="the job this server belongs to")
    parser.add_argument("--task", required=True, type=int, help="its index in the job")
    parser.add_argument(
        "--port",
        type=_between(1, 65535),
        help="listen here instead of on the port in the cluster spec",
    )
    parser.add_argument(
        "--threads",
        type=_between(1, 4096),
        help="size of TensorFlow's thread pools (default: one thread per core)",
    )
    parser.add_argument(
        "--device-count",
        type=_between(1, 256),
        help="CPU devices, and GPUs at most (default: one CPU, all GPUs)",
    )
    parser.add_argument(
        "--load-library",
        action="append",
        default=[],
        metavar="SO",
        help="a custom op library to load first",
    )
    flags = parser.parse_args(argv)
    try:
        cluster = parse_cluster(flags.cluster)
    except ValueError as error:
        raise UsageError(
            f'--cluster: not a cluster spec in JSON, such as {{"ps": ["host:port"]}}: {error}'
        ) from error
    if flags.task not in cluster.get(flags.job, {}):
        known = (
            ", ".join(f"{job}:{index}" for job, tasks in cluster.items() for index in tasks)
            or "no task"
        )
        raise UsageError(f"{flags.job}:{flags.task} is not in the cluster, which has {known}")
    return Request(
        cluster,
        flags.job,
        flags.task,
        flags.port,
        flags.threads,
        tuple(flags.load_library),
        flags.device_count,
    )


def _between(low: int, high: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        number = whole_number(text)
        if number is None or not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {low} to {high}")
        return number

    return convert


def not_started(request: Request, message: str) -> str:
    """Why a server did not start. TensorFlow's own message does not mention a port in use."""
    problem = _port_problem(request.listens_on)
    return f"{request.name}: {problem or f'TensorFlow could not start its server: {message}'}"


def _port_problem(port: int | None) -> str | None:
    if port is None:
        return None
    with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as probe:
        if probe.family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            probe.bind(("", port))
        except OSError as error:
            remedy = (
                "stop the process that holds it or choose another port"
                if error.errno == errno.EADDRINUSE
                else "choose another port"
            )
            return f"cannot listen on port {port}: {os.strerror(error.errno or 0)}; {remedy}"
    return None
