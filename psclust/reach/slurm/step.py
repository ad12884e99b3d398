"""A command on a node of an allocation, in a step of its own: an srun with pipes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO

from psclust.errors import HostError
from psclust.reach.host_command import HostCommand
from psclust.reach.slurm.on_node import NOTICE

_SAID = "srun: error: "
_REST_S = 2.0  # for the rest of srun's messages when its output has ended
# srun kills its step when it gets TERM, and at the end of a batch job Slurm sends that to all
# descendants of the script. So srun runs as no descendant: its parent, a shell in the background,
# is not ours, and writes srun's exit code behind its output.
_ENDED = b"\x01srun "
_APART = """exec 3<&0; { "$@"; printf '\\001srun %s\\n' "$?"; } <&3 3<&- & exec 0<&- 3<&-"""


class Step(HostCommand):
    """A running command. Leaving the context ends its input; the step stays as long
    as a process of it does. Raises HostError. noticed: called on another thread with the name of
    each signal that Slurm sends to the step's first process."""

    PLACE, LOST = "node", "the step ended"

    def __init__(
        self,
        host: str,
        srun: Sequence[str],
        environ: Mapping[str, str],
        purpose: str,
        noticed: Callable[[str], None],
    ) -> None:
        super().__init__(host, purpose)
        self._noticed = noticed
        self._code = 1
        self._answered = False
        try:
            # Its own session: a terminal's Ctrl-C must not reach srun either.
            self._process = subprocess.Popen(
                ["sh", "-c", _APART, "sh", *srun],
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._process.wait()
        except OSError as error:
            raise HostError(f"{host}: srun could not be started: {error.strerror}.") from None
        assert self._process.stderr is not None
        self._errors = self._take_errors(_without_remarks(self._process.stderr))
        self._take_in()

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self.close_stdin()
        if kind is not None and not self._answered and not self._ended.is_set():
            # It may wait for its turn on the node as long as the job lasts. At TERM it also ends a
            # step that has begun.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except (OSError, ValueError):
            self._refuse_failure_of_srun()
            raise self._lost() from None

    def close_stdin(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _output(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                text, mark, code = line.partition(_ENDED)
                if mark:
                    self._code = int(code)
                if text.startswith(NOTICE):
                    self._noticed(text.removeprefix(NOTICE).decode("ascii", "replace").strip())
                elif text:
                    self._answered = True
                    yield text

    def _exit_code(self) -> int:
        self._refuse_failure_of_srun()
        return self._code

    def _refuse_failure_of_srun(self) -> None:
        self._errors.join(_REST_S)
        lines = self.stderr.decode("utf-8", "replace").splitlines()
        errors = [line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)]
        if errors and " task 0: " not in errors[0] and not self._answered:
            raise HostError(
                f"{self._host}: srun could not start a step there: {errors[0].rstrip('.')}."
            )


def _without_remarks(lines: IO[bytes]) -> Iterator[bytes]:
    """Standard error without what srun says about itself, and the exit code, which it repeats."""
    with lines:
        for line in lines:
            if not line.startswith(b"srun: ") or (
                line.startswith(_SAID.encode()) and b" task 0: Exited with " not in line
            ):
                yield line
