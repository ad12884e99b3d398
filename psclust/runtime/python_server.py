"""A `tf.train.Server` for one task, `python -m psclust.runtime.python_server`, with the flags of
the bare server. For ops that need Python, such as `tf.py_func`."""

from __future__ import annotations

import sys

from psclust.errors import StartError
from psclust.runtime.kernel_library import python_ops
from psclust.runtime.quiet_import import quiet_import
from psclust.runtime.server_def import Request
from psclust.runtime.server_request import not_started, serve


def start(request: Request) -> object:
    """Start the server, which lives as long as the process. Raises StartError."""
    try:
        with quiet_import():
            import tensorflow as tf
    except ImportError as error:
        raise StartError(
            f"TensorFlow cannot be imported by {sys.executable}: {error}. Install it: "
            "pip install tensorflow"
        ) from error
    try:
        for path in request.op_libraries:
            tf.load_op_library(path)
        python_ops()
        return tf.distribute.Server(tf.train.ServerDef.FromString(request.encoded()))
    except (tf.errors.OpError, RuntimeError) as error:
        raise StartError(not_started(request, str(getattr(error, "message", error)))) from error


if __name__ == "__main__":
    serve(sys.argv[1:], start)
