"""Serves the metrics of a run to Prometheus, from the supervisor's process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer

from prometheus_client import CollectorRegistry, MetricsHandler

from psclust.control.run_metrics import RunMetrics
from psclust.supervise.supervisor import Supervisor

_IDLE_S = 30.0  # of a connection, whose thread then ends


def serve_metrics(supervisor: Supervisor, cluster: str, listener: int) -> Callable[[], None]:
    """Serve at a listening socket until the returned function is called. Nothing is gathered but
    when it is asked for."""
    registry = CollectorRegistry(auto_describe=False)
    readings = supervisor.inspection.readings
    registry.register(RunMetrics(cluster, readings, lambda: supervisor.status().began))
    handler = type("Handler", (MetricsHandler,), {"registry": registry, "timeout": _IDLE_S})
    server = ThreadingHTTPServer(("", 0), handler, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=listener)
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.is_set():
            server.handle_request()

    def stop() -> None:
        stopping.set()
        server.socket.shutdown(socket.SHUT_RDWR)  # wakes `serve`; the guard has the socket, too

    threading.Thread(target=serve, name="metrics", daemon=True).start()
    return stop
