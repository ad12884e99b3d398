"""Starts an agent from the psclust on the host, in a fork of this process: the interpreter's
start-up is done already."""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import select
import signal
import sys
import traceback
from typing import Any, BinaryIO, NoReturn


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `module`, to run with `arguments`; `stdin`, its input; `path`, the folder to
    import it from, None if it is installed. Returns its `code`, `stdout` and `stderr`. This process
    must have a single thread."""
    # In memory: the input holds keys, and a pipe would stay open in the agent that the module
    # leaves behind.
    files = [_file_in_memory(name) for name in ("stdin", "stdout", "stderr")]
    os.pwrite(files[0], question["stdin"].encode("utf-8"), 0)
    child = os.fork()
    if child == 0:
        _become(question["module"], question["arguments"], question["path"], files)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _, output, error = map(_content, files)
    if code == 0 and _hung_up(stream):
        # The launcher was interrupted and will never dial the agent.
        os.kill(json.loads(output)["pid"], signal.SIGTERM)
    return {"code": code, "stdout": output, "stderr": error}


def _become(module: str, arguments: list[str], path: str | None, files: list[int]) -> NoReturn:
    """As `python -m MODULE`, with these files as standard input, output and error."""
    code: Any = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, 1 << 16)  # the session's own among them, which would never end
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, 1, closefd=False) for number, mode in enumerate("rww")
        )
        _show([sys.executable, "-m", module])
        # sys.path starts with the login directory; a home may contain its own psclust or json.py.
        os.chdir("/")
        if path is not None:
            sys.path.insert(0, path)
            os.environ["PYTHONPATH"] = path
            for name in [
                name for name in sys.modules if name.partition(".")[0] == module.partition(".")[0]
            ]:
                del sys.modules[
                    name
                ]  # another psclust, which this Python imports whenever it starts
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - a process's outermost frame
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _show(command: list[str]) -> None:
    """Have `ps` list this process under another command line. The kernel reads that from the
    process's memory (proc(5): arg_start, arg_end), up to the first NUL if it does not end with
    one."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    text = " ".join(command).encode("utf-8", "surrogateescape")
    if len(text) + 2 <= end - start:
        ctypes.memmove(start, text.ljust(end - start - 1, b"\0") + b".", end - start)


def _file_in_memory(name: str) -> int:
    """As `os.memfd_create`, which Pythons built for old systems lack."""
    file = int(ctypes.CDLL(None, use_errno=True).memfd_create(name.encode(), 1))  # MFD_CLOEXEC
    if file < 0:
        raise OSError(ctypes.get_errno(), "no file in memory can be made")
    return file


def _content(file: int) -> str:
    with os.fdopen(file, "rb") as stream:
        stream.seek(0)
        return stream.read().decode("utf-8", "replace")


def _hung_up(stream: BinaryIO) -> bool:
    """Whether the other end is closed."""
    poll = select.poll()
    poll.register(stream, select.POLLRDHUP)
    return bool(poll.poll(0))
