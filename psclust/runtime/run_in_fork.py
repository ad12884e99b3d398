"""Run a script or module in a forked process that has TensorFlow imported, as a fresh interpreter
would."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from psclust.runtime import run_script, stack_dump, tensorflow_patches
from psclust.runtime.forked_interpreter import Interpreter


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    recovery_wait_s: float | None,
    host: Interpreter,
    ready: Callable[[], None],
) -> None:
    """Run the program in `argv`, after calling `ready`. Returns, without calling it, if the program
    needs a fresh interpreter."""
    if not host.runs(argv[0], env.get("PATH")):
        return
    program = run_script.program(list(argv[1:]))
    if program is None or host.shadowed(program.folder, env.get("PYTHONPATH", "")):
        return
    host.refresh(env, program.folder, program.argv, argv)
    after_success = tensorflow_patches.patch(recovery_wait_s, env)
    ready()
    stack_dump.offer_stacks(env)
    # At exit the fork server's modules stay: TensorFlow's threads may still run in them.
    known = frozenset(sys.modules) - {"__main__"}
    run_script.run(program, after_success, lambda: known)
