"""A command on a node of an allocation, in a step of its own: an srun with pipes."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from psclust.errors import HostError
from psclust.reach.connections import Input, Result
from psclust.reach.slurm.on_node import NOTICE

_TAIL = 1 << 20  # of stderr that is kept
_SAID = "srun: error: "
_REST_S = 2.0  # for the rest of srun's messages when its output has ended
# srun kills its step when it gets TERM, and at the end of a batch job Slurm sends that to all
# descendants of the script. So srun runs as no descendant: its parent, a shell in the background,
# is not ours, and writes srun's exit code behind its output.
_ENDED = b"\x01srun "
_APART = """exec 3<&0; { "$@"; printf '\\001srun %s\\n' "$?"; } <&3 3<&- & exec 0<&- 3<&-"""


class Step:
    """A running command (`HostProcess`). Leaving the context ends its input; the step stays as long
    as a process of it does. Raises HostError. purpose: a clause that says what the command does.
    noticed: called on another thread with the name of each signal that Slurm sends to the step's
    first process."""

    def __init__(
        self,
        host: str,
        srun: Sequence[str],
        environ: Mapping[str, str],
        purpose: str,
        noticed: Callable[[str], None] | None = None,
    ) -> None:
        self._host, self._purpose, self._noticed = host, purpose, noticed
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._stderr = bytearray()
        self._code = 1
        self._answered = False
        self._ended = threading.Event()
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
        threading.Thread(target=self._read, name=f"srun-stdout-{host}", daemon=True).start()
        self._errors = threading.Thread(
            target=self._read_stderr, name=f"srun-stderr-{host}", daemon=True
        )
        self._errors.start()

    def __enter__(self) -> Step:
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self.close_stdin()
        if kind is not None and not self._answered and not self._ended.is_set():
            # It may wait for its turn on the node as long as the job lasts. At TERM it also ends a
            # step that has begun.
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)

    @property
    def stderr(self) -> bytes:
        return bytes(self._stderr)

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except (OSError, ValueError):
            self._refuse_failure_of_srun()
            raise HostError(
                f"{self._host}: the step ended while {self._purpose}. Is the node still there?"
            ) from None

    def close_stdin(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def read_line(self, deadline: float | None) -> bytes:
        """See `HostProcess.read_line`."""
        try:
            line = self._lines.get(
                timeout=None if deadline is None else max(0.0, deadline - time.monotonic())
            )
        except queue.Empty:
            raise self._late() from None
        if not line:
            self._lines.put(b"")
            self._refuse_failure_of_srun()
        return line

    def wait(self, deadline: float | None) -> int:
        if not self._ended.wait(
            None if deadline is None else max(0.0, deadline - time.monotonic())
        ):
            raise self._late()
        return self._code

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                text, mark, code = line.partition(_ENDED)
                if mark:
                    self._code = int(code)
                if text.startswith(NOTICE) and self._noticed is not None:
                    self._noticed(text.removeprefix(NOTICE).decode("ascii", "replace").strip())
                elif text and not text.startswith(NOTICE):
                    self._answered = True
                    self._lines.put(text)
        self._ended.set()
        self._lines.put(b"")

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._stderr += line
                del self._stderr[:-_TAIL]

    def _refuse_failure_of_srun(self) -> None:
        self._errors.join(_REST_S)
        lines = self.stderr.decode("utf-8", "replace").splitlines()
        errors = [
            line.removeprefix(_SAID)
            for line in lines
            if line.startswith(_SAID) and "task 0: Exited" not in line
        ]
        if errors and not self._answered:
            raise HostError(
                f"{self._host}: srun could not start a step there: {errors[0].rstrip('.')}."
            )

    def _late(self) -> HostError:
        return HostError(
            f"{self._host}: no answer in time while {self._purpose}. "
            "Is the node still there, or is it very busy?"
        )


def run_to_end(
    host: str,
    srun: Sequence[str],
    environ: Mapping[str, str],
    shown: str,
    stdin: Input,
    timeout_s: float | None,
    *,
    keep_open: bool,
) -> Result:
    """Run a step to its end; it is killed after `timeout_s`. keep_open: give it no input, and keep
    that open. Raises HostError."""
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            srun,
            env=dict(environ),
            stdin=read if keep_open else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        os.close(write)
        raise HostError(f"{host}: srun could not be started: {error.strerror}.") from None
    finally:
        os.close(read)
    try:
        output, errors = process.communicate(None if keep_open else _joined(stdin), timeout_s)
    except subprocess.TimeoutExpired:
        # srun then kills the step.
        process.terminate()
        process.communicate()
        raise HostError(f"{host}: `{shown}` did not end in time.") from None
    finally:
        os.close(write)
    return Result(
        process.returncode,
        output,
        b"".join(line for line in errors.splitlines(keepends=True) if not _is_remark(line)),
    )


def _is_remark(line: bytes) -> bool:
    """Whether srun says this about itself, or repeats the exit code."""
    return line.startswith(b"srun: ") and (
        not line.startswith(_SAID.encode()) or b" task 0: Exited with " in line
    )


def _joined(stdin: Input) -> bytes:
    return (
        stdin
        if isinstance(stdin, bytes)
        else b"".join(stdin)
        if isinstance(stdin, Iterable)
        else b""
    )
