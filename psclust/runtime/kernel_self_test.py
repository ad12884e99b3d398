"""Whether psclust's kernels fit a build of TensorFlow: the program of a process of its own,
which may crash or wait for ever if they do not.

    python kernel_self_test.py KERNELS FOLDER

FOLDER is that of TensorFlow. It sends values as int8 from op to op. With PSCLUST_LAYOUT, it also
sends a value by psclust's own wire to itself, and has a run that waits for another cancelled: both
need that layout (`native/tensorflow_private.c`). Imports nothing of psclust."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import Any

_PR_SET_PDEATHSIG = 1
_WAIT_S = 0.5
_LATE_S = 10  # after which the process is ended by a signal: a run waits for ever


def main(kernels: str, folder: str) -> bool:
    """Whether they fit."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.path.append(os.path.dirname(folder))
    import tensorflow as tf

    if os.path.realpath(tf.sysconfig.get_lib()) != os.path.realpath(folder):
        return False
    ops = tf.load_op_library(kernels)
    signal.alarm(_LATE_S)
    return _encodes(tf, ops) and ("PSCLUST_LAYOUT" not in os.environ or _sends(tf, ops))


def _encodes(tf: Any, ops: Any) -> bool:
    """Whether numbers that are whole parts of the largest are the same after they were int8."""
    values = [float(number) for number in range(-127, 128)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = tf.constant(values)
        message, _ = ops.psclust_encode(given, tf.zeros_like(given), block=64, difference=False)
        came = ops.psclust_decode(message, [], count=len(values), block=64)
        return bool(max(abs(session.run(came) - values)) < 0.51)


def _sends(tf: Any, ops: Any) -> bool:
    there, back = {"own": "ps:0", "peer": "worker:0"}, {"own": "worker:0", "peer": "ps:0"}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        connect = ops.psclust_connect(
            ops.psclust_listen(own="ps:0"), host="127.0.0.1", port=0, **back
        )
        send = ops.psclust_send(tf.constant([2.5, 3.5]) * 2, key=1, **back)
        received = ops.psclust_receive(T=tf.float32, key=1, **there)
        awaited = ops.psclust_receive(T=tf.float32, key=2, **there)
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
