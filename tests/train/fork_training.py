"""A whole training in a process of its own, forked from one that has imported TensorFlow: the
TensorFlow server of a client cannot be stopped, and would keep its memory for as long as the tests
run. A module by itself, see `fork_clients`."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle
from fork_clients import FORKS, SERVER, fork

from psclust.testing.wait import PATIENCE_S, wait_until
from psclust.train.program_options import Options
from psclust.train.task_context import TaskContext


@dataclass
class Training:
    """contexts: of the clients, which are threads of one process."""

    program: Any
    contexts: Sequence[TaskContext]
    options: Options
    model_dir: Path

    def run(self) -> None:
        """Raises the first error of any client."""
        from psclust.train import modes
        from psclust.train.job import Job
        from psclust.train.progress_file import ProgressFile
        from psclust.train.reporter import Reporter

        errors: list[BaseException] = []

        def train(context: TaskContext) -> None:
            try:
                modes.train(
                    Job(
                        self.program,
                        context,
                        self.options,
                        self.model_dir,
                        Reporter(ProgressFile(None), 60.0),
                    )
                )
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)

        threads = [
            threading.Thread(target=train, args=(context,), daemon=True)
            for context in self.contexts
        ]
        for thread in threads:
            thread.start()
        wait_until(
            lambda: errors or not any(thread.is_alive() for thread in threads),
            what="the end of the training",
        )
        if errors:
            raise errors[0]

    def run_apart(self) -> None:
        """The same in a process of its own, which sees a copy of the program."""
        answer, theirs = FORKS.Pipe()
        process = fork(_run, cloudpickle.dumps(self), theirs)
        theirs.close()
        try:
            error = (
                cloudpickle.loads(answer.recv_bytes())
                if answer.poll(PATIENCE_S)
                else TimeoutError("no answer")
            )
        except EOFError:
            process.join()
            error = RuntimeError(f"the process of the training ended with {process.exitcode}")
        process.kill()
        process.join()
        if error is not None:
            raise error


def _run(training: bytes, answer: Connection) -> None:
    from psclust.estimator import install

    os.environ.update(SERVER)
    # As `python -m psclust.train` does.
    install()
    try:
        cloudpickle.loads(training).run()
    except BaseException as error:  # noqa: BLE001 - handed over
        answer.send_bytes(cloudpickle.dumps(error))
    else:
        answer.send_bytes(cloudpickle.dumps(None))
    # Not even the interpreter's own end: threads of TensorFlow are still at work.
    answer.close()
    os._exit(0)
