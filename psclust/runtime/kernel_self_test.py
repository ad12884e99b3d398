"""Whether psclust's kernels fit a build of TensorFlow: the program of a process of its own,
which may crash or wait for ever if they do not.

    python kernel_self_test.py KERNELS FOLDER

FOLDER is that of TensorFlow. It sends a value by psclust's own wire to itself, and has a run that
waits for another cancelled: both need the layout that `native/tensorflow_private.c` expects.
Imports nothing of psclust."""

from __future__ import annotations

import os
import signal
import sys
import time

_WAIT_S = 0.5
_LATE_S = 20  # after which the process is ended by a signal: a run waits for ever


def main(kernels: str, folder: str) -> bool:
    """Whether they fit."""
    sys.path.append(os.path.dirname(folder))
    import tensorflow as tf

    if os.path.realpath(tf.sysconfig.get_lib()) != os.path.realpath(folder):
        return False
    ops = tf.load_op_library(kernels)
    there, back = {"own": "ps:0", "peer": "worker:0"}, {"own": "worker:0", "peer": "ps:0"}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        connect = ops.psclust_connect(ops.psclust_listen(own="ps:0"), host="127.0.0.1", **back)
        send = ops.psclust_send(tf.constant([2.5, 3.5]) * 2, key=1, **back)
        received = ops.psclust_receive(T=tf.float32, key=1, **there)
        awaited = ops.psclust_receive(T=tf.float32, key=2, **there)
        signal.alarm(_LATE_S)
        session.run(connect)
        for _ in range(3):
            if session.run([received, send])[0].tolist() != [5, 7]:
                return False
            began = time.monotonic()
            try:
                session.run(
                    awaited,
                    options=tf.compat.v1.RunOptions(timeout_in_ms=int(_WAIT_S * 1000)),
                )
            except tf.errors.DeadlineExceededError:
                if time.monotonic() - began < _WAIT_S * 0.9:
                    return False
            else:
                return False
    return True


if __name__ == "__main__":
    sys.exit(0 if main(*sys.argv[1:]) else 1)
