"""Run a Python program in a forked child exactly as `python program.py`, `python -m program` or `python -c code` would: the same
`__main__`, the same tracebacks, the same end."""

from __future__ import annotations

import atexit
import builtins
import gc
import io
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
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType, TracebackType
from typing import NoReturn

from psclust.runtime import process


@dataclass(frozen=True)
class Program:
    """What stands after the interpreter in a command line."""

    argv: tuple[str, ...]
    """`sys.argv` as the program sees it first."""
    folder: str
    """`sys.path[0]`."""
    module: str | None = None
    code: CodeType | None = None
    path: str | None = None


def program(arguments: Sequence[str]) -> Program | None:
    """The program in the arguments of an interpreter; None for all that is better left to a fresh interpreter: its own options, folders
    and archives, files that are not there, programs that do not compile."""
    first, rest = (arguments[0], tuple(arguments[1:])) if arguments else ("", ())
    if first == "-m" and rest:
        return Program(("-m", *rest[1:]), os.getcwd(), module=rest[0])
    if first == "-c" and rest:
        code = _compiled(rest[0], "<string>")
        return Program(("-c", *rest[1:]), "", code=code) if code else None
    if not first or first.startswith("-") or first.endswith(".pyc") or not os.path.isfile(first) or zipfile.is_zipfile(first):
        return None
    path = os.path.join(os.getcwd(), first)
    try:
        with open(path, "rb") as file:
            code = _compiled(file.read(), path)
    except OSError:
        return None
    return Program((first, *rest), os.path.dirname(os.path.realpath(first)), code=code, path=path) if code else None


def run(wanted: Program) -> NoReturn:
    """Run it as `__main__` and end the process as the interpreter would."""
    known = frozenset(sys.modules) - {"__main__"}
    finish(_run(wanted), known)


def finish(status: int, known: frozenset[str]) -> NoReturn:
    """End as the interpreter does, short of tearing down the modules in `known`, those of the fork server: TensorFlow's threads may
    still be running in them."""
    for last_duty in (threading._shutdown, atexit._run_exitfuncs, lambda: _let_go(known)):  # type: ignore[attr-defined]
        _guarded(last_duty)
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and not getattr(stream, "closed", True):
                stream.flush()
        except OSError:
            status = status or 120  # the interpreter's own code for output it could not write
    process.flush_c_streams()
    os._exit(status & 0xFF)


def _compiled(source: str | bytes, name: str) -> CodeType | None:
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return None


def _run(wanted: Program) -> int:
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    scope = main.__dict__
    scope.update(__builtins__=builtins, __annotations__={})
    if wanted.path is not None:
        scope.update(__file__=wanted.path, __cached__=None, __loader__=SourceFileLoader("__main__", wanted.path))
    del main
    try:
        if wanted.code is not None:
            exec(wanted.code, scope)
        else:
            runpy._run_module_as_main(wanted.module)  # type: ignore[attr-defined]
    except SystemExit as end:
        return _exit_status(end)
    except KeyboardInterrupt as interrupt:
        _show(interrupt)
        _guarded(sys.stdout.flush)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:  # noqa: BLE001 - the program's own, told as the interpreter tells it
        return _show(error)
    return 0


def _exit_status(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stderr.write(f"{end.code}\n")
    return 1


def _show(error: BaseException) -> int:
    """Print a traceback through `sys.excepthook`, without the frames of this file; the exit status."""
    error.__traceback__ = _from_the_program_on(error.__traceback__)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as end:
        return _exit_status(end)
    except BaseException:  # noqa: BLE001 - whatever the program's own hook raises
        sys.stderr.write(f"Error in sys.excepthook:\n{traceback.format_exc()}\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return 1


def _from_the_program_on(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _guarded(last_duty: Callable[[], object]) -> None:
    try:
        last_duty()
    except BaseException as error:  # noqa: BLE001 - nothing that the program left behind may keep the process from ending
        _show(error)


def _let_go(known: frozenset[str]) -> None:
    """Drop the program's modules, last one first: files it left open are written, `__del__` methods run. Where other threads still run
    in those modules, only the files."""
    if len(sys._current_frames()) > 1:
        _flush_files()
        return
    sys.last_type = sys.last_value = sys.last_traceback = None  # they hold the frames of the program's failure
    names = [name for name in sys.modules if name not in known]
    modules = [weakref.ref(sys.modules[name]) for name in names if isinstance(sys.modules[name], types.ModuleType)]
    for name in names:
        del sys.modules[name]
    gc.collect()
    for reference in reversed(modules):
        if (module := reference()) is not None:
            _empty(module.__dict__)
    del module
    gc.collect()


def _empty(scope: dict[str, object]) -> None:
    # Private names first, builtins never, and set rather than deleted: the interpreter's own order, which `__del__` methods rely on.
    for private in (True, False):
        for name in list(scope):
            if name != "__builtins__" and (name.startswith("_") and not name.startswith("__")) is private:
                scope[name] = None


def _flush_files() -> None:
    for kind in (io.TextIOBase, io.BufferedIOBase):
        for file in gc.get_objects():
            if isinstance(file, kind) and not file.closed and file.writable():
                file.flush()
