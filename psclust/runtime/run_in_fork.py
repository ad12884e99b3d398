"""A script or module run in a process that was forked with TensorFlow imported, as a fresh interpreter would run it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from psclust.runtime import run_script, tensorflow_patches
from psclust.runtime.forked_interpreter import Interpreter


def run(argv: Sequence[str], env: Mapping[str, str], recovery_wait: float | None, host: Interpreter, ready: Callable[[], None]) -> None:
    """Run the program of `argv`, once `ready` has been called; return, without that, where it takes a fresh interpreter."""
    if not host.runs(argv[0], env.get("PATH")):
        return
    program = run_script.program(list(argv[1:]))
    if program is None or host.shadowed(program.folder, env.get("PYTHONPATH", "")):
        return
    host.refresh(env, program.folder, program.argv, argv)
    after_success = tensorflow_patches.patch(recovery_wait, env)
    ready()
    # The fork server's own modules stay: TensorFlow's threads may still be running in them.
    known = frozenset(sys.modules) - {"__main__"}
    run_script.run(program, after_success, lambda: known)
