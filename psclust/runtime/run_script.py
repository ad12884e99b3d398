"""Run a Python program in this process exactly as `python program.py`, `python -m program` or
`python -c code` would: the same `__main__`, tracebacks and end. For `run_in_fork` and
`run_in_interpreter`."""

from __future__ import annotations

import atexit
import builtins
import gc
import io
import linecache
import os
import runpy
import signal
import sys
import threading
import traceback
import types
import weakref
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import decode_source
from types import CodeType, TracebackType
from typing import NoReturn, TextIO

from psclust.runtime import linux_process


@dataclass(frozen=True)
class Program:
    """A program in an interpreter's command line."""

    argv: tuple[str, ...]
    """The initial `sys.argv`."""
    folder: str
    """`sys.path[0]`."""
    module: str | None = None
    code: CodeType | None = None
    path: str | None = None


def program(arguments: Sequence[str]) -> Program | None:
    """The program in an interpreter's arguments; None if only the interpreter can run them:
    options, folders, archives, missing files, programs that do not compile."""
    first, rest = (arguments[0], tuple(arguments[1:])) if arguments else ("", ())
    if first == "-m" and rest:
        return Program(("-m", *rest[1:]), os.getcwd(), module=rest[0])
    if first == "-c" and rest:
        code = _compiled(rest[0], "<string>")
        if sys.version_info >= (3, 13):  # tracebacks show lines of -c
            linecache.cache["<string>"] = (
                len(rest[0]),
                None,
                rest[0].splitlines(keepends=True),
                "<string>",
            )
        return Program(("-c", *rest[1:]), "", code=code) if code else None
    if (
        not first
        or first.startswith("-")
        or first.endswith(".pyc")
        or not os.path.isfile(first)
        or zipfile.is_zipfile(first)
    ):
        return None
    path = os.path.join(os.getcwd(), first)
    try:
        with open(path, "rb") as file:
            code = _compiled(decode_source(file.read()), path)
    except (OSError, SyntaxError, UnicodeError):
        return None
    return (
        Program((first, *rest), os.path.dirname(os.path.realpath(first)), code=code, path=path)
        if code
        else None
    )


def run(
    wanted: Program, after_success: Callable[[], None] | None, lasting: Callable[[], frozenset[str]]
) -> NoReturn:
    """Run it as `__main__` and end the process as the interpreter would, except that the modules in
    `lasting()` stay. `after_success` is called last, after all output has been written."""
    finish(_run(wanted), after_success, lasting)


def finish(
    status: int | None,
    after_success: Callable[[], None] | None,
    lasting: Callable[[], frozenset[str]],
) -> NoReturn:
    """End as the interpreter does; `status` None: by SIGINT."""
    duties = (threading._shutdown, atexit._run_exitfuncs)  # type: ignore[attr-defined]
    for last_duty in (*duties, lambda: _let_go(lasting())):
        _guarded(last_duty)
    if not _flush_last(sys.stdout) and status == 0:
        status = 120  # the interpreter's own code for output that could not be written
    _flush_last(sys.stderr)
    _flush_files()
    linux_process.flush_c_streams()
    if status is None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    if status == 0 and after_success is not None:
        after_success()
    os._exit((status or 0) & 0xFF)


def _flush_last(stream: TextIO | None) -> bool:
    """Flush a stream; on failure print the interpreter's own message and return False."""
    try:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    except Exception as error:  # noqa: BLE001 - the stream may be any object of the program's
        where = "on flushing sys.stdout:" if sys.version_info >= (3, 13) else f"in: {stream!r}"
        os.write(
            2,
            f"Exception ignored {where}\n{type(error).__name__}: {error}\n".encode(
                errors="backslashreplace"
            ),
        )
        return False
    return True


def _compiled(source: str, name: str) -> CodeType | None:
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None


def _run(wanted: Program) -> int | None:
    """Run the program; returns its exit status, None after Ctrl-C."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    scope = main.__dict__
    scope.update(__builtins__=builtins, __annotations__={})
    if wanted.path is not None:
        scope.update(
            __file__=wanted.path,
            __cached__=None,
            __loader__=SourceFileLoader("__main__", wanted.path),
        )
    del main
    try:
        if wanted.code is not None:
            try:
                exec(wanted.code, scope)
            finally:
                _flush_streams(wanted)
        else:
            runpy._run_module_as_main(wanted.module)  # type: ignore[attr-defined]
    except SystemExit as end:
        return _exit_status(end)
    except KeyboardInterrupt as interrupt:
        _show(interrupt)
        return None
    except BaseException as error:  # noqa: BLE001 - the program's own, shown as by the interpreter
        return _show(error)
    return 0


def _flush_streams(wanted: Program) -> None:
    # For a file, unlike -m and -c, the interpreter flushes before the traceback.
    for stream in (sys.stderr, sys.stdout) if wanted.path is not None else ():
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def _exit_status(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stderr.write(f"{end.code}\n")
    return 1


def _show(error: BaseException) -> int:
    """Print a traceback through `sys.excepthook`, without the frames of this file; returns the exit
    status."""
    error.__traceback__ = _from_the_program_on(error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as end:
        return _exit_status(end)
    except BaseException as second:  # noqa: BLE001 - whatever the program's own hook raises
        lines = traceback.format_exception(
            type(second), second, _from_the_program_on(second.__traceback__), chain=False
        )
        sys.stderr.write(f"Error in sys.excepthook:\n{''.join(lines)}\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def _from_the_program_on(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _guarded(last_duty: Callable[[], object]) -> None:
    try:
        last_duty()
    except BaseException as error:  # noqa: BLE001 - nothing may keep the process from its end
        _show(error)


def _let_go(lasting: frozenset[str]) -> None:
    """Flush the files that the program left open and drop its modules, last one first, so that
    `__del__` methods run. If other threads still run in those modules, only flush."""
    _flush_files(but=sys.__stdout__)
    if len(sys._current_frames()) > 1:
        return
    # They keep the frames of the failure alive.
    sys.last_type = sys.last_value = sys.last_traceback = None
    names = [name for name in sys.modules if name not in lasting]
    modules = [
        weakref.ref(sys.modules[name])
        for name in names
        if isinstance(sys.modules[name], types.ModuleType)
    ]
    for name in names:
        del sys.modules[name]
    gc.collect()
    for module in reversed(modules):
        _empty(module())
    gc.collect()


def _empty(module: types.ModuleType | None) -> None:
    """Set the names of a module that is still referenced to None, private ones first, builtins
    never. `__del__` methods rely on this order, the interpreter's own."""
    scope = module.__dict__ if module is not None else {}
    for private in (True, False):
        for name in list(scope):
            if (
                name != "__builtins__"
                and (name.startswith("_") and not name.startswith("__")) is private
            ):
                scope[name] = None


def _flush_files(but: TextIO | None = None) -> None:
    for kind in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
        for file in gc.get_objects():
            if (
                isinstance(file, kind)
                and file is not but
                and file is not getattr(but, "buffer", None)
            ):
                with suppress(OSError, ValueError):
                    file.flush()
