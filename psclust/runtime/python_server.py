"""A `tf.train.Server` for one task, `python -m psclust.runtime.python_server`, with the flags of the bare server. For ops that need Python,
such as `tf.py_func`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from psclust.errors import PsclustError, StartError
from psclust.runtime.bare_server import Request, not_started, parse, wait_for_a_signal
from psclust.runtime.quiet_import import quiet_import


def serve(argv: Sequence[str]) -> NoReturn:
    """Serve until killed. A failure is one sentence on stderr and the exit code of its kind, as with the bare server."""
    try:
        server = start(parse(argv))
    except PsclustError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
    wait_for_a_signal(server)


def start(request: Request) -> object:
    """Start the server, which lives as long as the process. Raises StartError."""
    try:
        with quiet_import():
            import tensorflow as tf
    except ImportError as error:
        raise StartError(f"TensorFlow cannot be imported by {sys.executable}: {error}. Install it: pip install tensorflow") from error
    config = tf.compat.v1.ConfigProto()
    config.experimental.disable_thread_spinning = True
    if request.threads is not None:
        config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = request.threads
    if request.devices is not None:
        config.device_count["CPU"] = config.device_count["GPU"] = request.devices
    definition = tf.train.ServerDef(job_name=request.job, task_index=request.task, protocol="grpc", port=request.port or 0)
    for job, tasks in request.cluster.items():
        definition.cluster.job.add(name=job).tasks.update(tasks)
    try:
        for path in request.op_libraries:
            tf.load_op_library(path)
        return tf.distribute.Server(definition, config=config)
    except (tf.errors.OpError, RuntimeError) as error:
        raise StartError(not_started(request, str(getattr(error, "message", error)))) from error


if __name__ == "__main__":
    serve(sys.argv[1:])
