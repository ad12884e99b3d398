"""A script or module run in a process that was forked with TensorFlow imported, as a fresh interpreter would run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from psclust.runtime import patches, script
from psclust.runtime.interpreter import Interpreter


def run(argv: Sequence[str], env: Mapping[str, str], recovery_wait: float | None, host: Interpreter, ready: Callable[[], None]) -> None:
    """Run the program of `argv`, once `ready` has been called; return, without that, where it takes a fresh interpreter."""
    if not host.runs(argv[0], env.get("PATH")):
        return
    program = script.program(list(argv[1:]))
    if program is None or host.shadowed(program.folder, env.get("PYTHONPATH", "")):
        return
    host.refresh(env, program.folder, program.argv, argv)
    if recovery_wait is not None:
        patches.lower_recovery_wait(recovery_wait)
    servers = None
    if "PSCLUST_PROGRESS" in env and "PSCLUST_REPLICATION" not in env:  # psclust's own programs end together
        servers = patches.OwnServers(env["PSCLUST_PROGRESS"])
        servers.watch()
    ready()
    script.run(program, servers.outlive_program if servers else None)
