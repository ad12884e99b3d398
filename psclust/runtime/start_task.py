"""A task's process between the fork and its program: it becomes the supervisor's child, in its own
session, with its own environment, folder and output. Then it runs a bare server (`bare_server`), a
script in this process (`run_in_fork`), or a command (`run_command`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from psclust.runtime import bare_server, linux_process, run_command
from psclust.runtime.preload import Loaded
from psclust.spec.preload_limits import IMPORT_READS, LIBRARY_READS, stale
from psclust.spec.python_command import through_entry

SERVER = ["-m", "psclust.runtime.bare_server"]


class Task(NamedTuple):
    """A request to start one task, as the supervisor sends it."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    supervisor: int
    recovery_wait_s: float | None


def run(task: Task, output: int, reply: int, parent: int, loaded: Loaded) -> NoReturn:
    """Become the task, for now a child of process `parent`, and write {"pid": ...} to `reply`.
    Never returns and never raises, so that the fork server's own code does not run on in the
    child."""
    try:
        os.setsid()
        # Before the pid is known: until here a TERM is ignored, as in the fork server.
        linux_process.default_signals()
        os.write(reply, f'{{"pid": {os.getpid()}}}\n'.encode())
        os.dup2(output, 1)
        os.dup2(output, 2)
        _settle(task)
        _begin(task, parent, loaded)
    except SystemExit as end:  # argparse has printed a server's help
        os._exit(end.code if isinstance(end.code, int) else 0)
    finally:
        sys.excepthook(*sys.exc_info())
        os._exit(70)


def _settle(task: Task) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.closerange(3, 1 << 20)
    os.environ.clear()
    os.environ.update(task.env)
    # All forked tasks have the fork server's command line; exec gives a command its own name back.
    linux_process.set_name(task.env.get("PSCLUST_TASK", "python"))
    try:
        os.chdir(task.cwd)
    except OSError as error:
        run_command.refuse(f"{task.cwd}: cannot be the working folder: {error.strerror}", 126)


def _begin(task: Task, parent: int, loaded: Loaded) -> NoReturn:
    arguments = list(task.argv[1:])
    if (
        loaded.library is not None
        and arguments[:2] == SERVER
        and not stale(task.env, loaded.environment, LIBRARY_READS)
    ):
        _belong_to(task.supervisor, parent)
        bare_server.serve(arguments[2:], loaded.library)
    if (
        loaded.interpreter is not None
        and arguments[:2] != SERVER
        and not stale(task.env, loaded.environment, IMPORT_READS)
    ):
        from psclust.runtime import run_in_fork  # a process without TensorFlow never needs it

        run_in_fork.run(
            task.argv,
            task.env,
            task.recovery_wait_s,
            loaded.interpreter,
            lambda: _belong_to(task.supervisor, parent),
        )
    _belong_to(task.supervisor, parent)
    run_command.execute(through_entry(task.argv, task.recovery_wait_s), task.env)


def _belong_to(supervisor: int, parent: int) -> None:
    """Wait to become the supervisor's child instead of `parent`'s, and die with it from then on.
    Called as late as possible, because the process in between is the parent until it has freed its
    copy of a large memory."""
    linux_process.wait_for_new_parent(parent)
    linux_process.die_with_parent()
    # Checked afterwards: the kernel does not signal the death of a supervisor that died before the
    # call.
    if os.getppid() != supervisor:
        run_command.refuse(
            f"the supervisor, process {supervisor}, is gone, "
            "or is not a subreaper above the fork server",
            1,
        )
