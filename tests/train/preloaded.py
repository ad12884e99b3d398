"""What the process that tests fork clients and servers from loads before its first fork."""

from __future__ import annotations

import gc

# An import makes no garbage; and what is frozen no child ever looks at, which would copy its pages.
gc.disable()

import fork_training  # noqa: E402, F401
import toys  # noqa: E402, F401

import psclust.runtime.bare_server  # noqa: E402
import psclust.train.command_line  # noqa: E402, F401

gc.freeze()
gc.enable()
