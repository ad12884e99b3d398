"""Loads TensorFlow, without Keras and without the notices it writes on every machine: oneDNN is on,
there is no GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from psclust.runtime.tensorflow_import import tensorflow_import

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def quiet_import() -> Iterator[None]:
    """Drop TensorFlow's notices while it loads inside; all else goes to stderr at the end. Later it
    logs errors only, as in a cluster. Does nothing if TF_CPP_MIN_LOG_LEVEL=0 is set, or without a
    stderr."""
    if (
        "tensorflow" in sys.modules
        or os.environ.get(_LEVEL) == "0"
        or sys.stderr is None
        or not hasattr(os, "memfd_create")
    ):
        yield
        return
    stderr, aside = os.dup(2), os.memfd_create("stderr")
    os.dup2(aside, 2)
    try:
        with tensorflow_import({_LEVEL: "2"}):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        with open(aside, "rb") as captured:
            captured.seek(0)
            os.write(2, b"".join(line for line in captured if not _is_notice(line)))


def _is_notice(line: bytes) -> bool:
    """`I0000 00:00:1795.1  21 port.cc:153] ...`: logged before TensorFlow has set up its log,
    whatever TF_CPP_MIN_LOG_LEVEL says."""
    return line.startswith(b"WARNING: All log messages before absl::InitializeLog()") or (
        line[:1] == b"I" and line[1:5].isdigit()
    )
