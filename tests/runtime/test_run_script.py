"""Programs run in a forked child of the preloaded interpreter, beside the same programs run by
`python`: nobody could tell them apart."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from fork_client import ForkServer

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

# Each is a file x.py in a folder of its own.
PROGRAMS = {
    "prints, then fails": "print('before')\n1 / 0",
    "arguments": (
        "import sys; print(sys.argv, sys.path[0], __file__, __name__, __spec__, __package__, "
        "__doc__, __cached__)"
    ),
    "fails": "def f():\n    return 1 / 0\n\nf()",
    "fails in a chain": (
        "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e"
    ),
    "fails in an import": "import broken",
    "exits with a number": "import sys; sys.exit(3)",
    "exits with a negative number": "import sys; sys.exit(-2)",
    "exits with nothing": "import sys; sys.exit()",
    "exits with a sentence": "import sys; print('before'); sys.exit('no data in ./x')",
    "exits with an object": "import sys; sys.exit(['a', 1])",
    "exits by a subclass": "class Stop(SystemExit): pass\nraise Stop(5)",
    "exits at once": "import os; os._exit(7)",
    "is interrupted": "raise KeyboardInterrupt",
    "is interrupted by a signal": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(10)"
    ),
    "has a syntax error": "x = (1,\nprint(x",
    "has a bad encoding": b"# \xff\nprint('x')",
    "has a null byte": b"print('x')\0",
    "has a cookie": "# -*- coding: latin-1 -*-\nprint('\xe9' == chr(233))".encode("latin-1"),
    "has a byte order mark": b"\xef\xbb\xbfprint('bom')",
    "has DOS lines": b"print('a')\r\nif True:\r\n    print('b')\r\n",
    "prints at its end": (
        "import atexit\natexit.register(print, 'last')\natexit.register(print, 'first')"
    ),
    "fails at its end": "import atexit\natexit.register(lambda: 1 / 0)",
    "leaves a file open": "f = open('left', 'w'); f.write('x' * 10)",
    "leaves a file open in a cycle": "f = open('left', 'w'); f.write('y')\ndef g(): return f",
    "leaves a file open under a thread": (
        "import threading, time\nf = open('left', 'w'); f.write('z')\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    ),
    "leaves a file open in a module": "import holder\nholder.keep(open('left', 'w')).write('w')",
    "leaves an object": (
        "class A:\n    def __del__(self): print('gone', print is not None)\na = A()"
    ),
    "leaves a traceback with a file": (
        "def f():\n    g = open('left', 'w'); g.write('t'); raise ValueError\nf()"
    ),
    "starts a thread": (
        "import threading, time\ndef f():\n    time.sleep(0.2); print('thread')\n"
        "threading.Thread(target=f).start(); print('main')"
    ),
    "fails in a thread": (
        "import threading\nthreading.Thread(target=lambda: 1 / 0, name='t').start()"
    ),
    "does not end its line": (
        "import sys; sys.stdout.write('no newline'); sys.stderr.write('nor here')"
    ),
    "prints half a character": "import sys; sys.stdout.buffer.write('\u20ac'.encode()[:2])",
    "prints what cannot be encoded": "print('\\udc80')",
    "writes binary and text": (
        "import sys; sys.stdout.buffer.write(b'a'); sys.stdout.flush(); print('b')"
    ),
    "prints from C": "import ctypes; ctypes.CDLL(None).printf(b'from C')",
    "closes its output": "import sys; sys.stdout.close()",
    "loses its output": "import sys, os; print('x'); os.close(1)",
    "replaces its output": "import sys, io\nsys.stdout = io.StringIO(); print('hidden')",
    "replaces its output by half a stream": (
        "import sys\nclass Half:\n    def write(self, s): sys.__stdout__.write(s.upper())\n"
        "sys.stdout = Half(); print('a')"
    ),
    "has its own hook": (
        "import sys\nsys.excepthook = lambda *error: print('hook', error[0].__name__)\n1 / 0"
    ),
    "has a hook that fails": "import sys\ndef hook(*error): {}['h']\nsys.excepthook = hook\n1 / 0",
    "has a hook that exits": "import sys\nsys.excepthook = lambda *error: sys.exit(4)\n1 / 0",
    "reads its input": "import sys; print(repr(sys.stdin.read()))",
    "describes its streams": (
        "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, "
        "s.isatty(), type(s.buffer).__name__)"
    ),
    "describes its signals": (
        "import signal\nfor s in (2, 1, 15, 13, 17): print(signal.getsignal(s))\n"
        "print(signal.pthread_sigmask(0, []))"
    ),
    "describes its path": (
        "import sys, os; print(sys.path[:4], os.getcwd(), sys.orig_argv, "
        "sys.flags, sys.warnoptions)"
    ),
    "describes its main module": (
        "import sys; print(sys.modules['__main__'].__dict__.keys() "
        "== globals().keys(), sorted(globals()))"
    ),
    "finds itself": (
        "import __main__, inspect as i\ndef f(): pass\n"
        "print(__main__.f is f, i.getsource(f), f.__module__, i.getfile(f))"
    ),
    "logs with absl": (
        "from absl import logging\nlogging.error('absl'[:0] or 'x')\nprint(logging.get_verbosity())"
    ),
    "warns": "import warnings\ndef f(): warnings.warn('old', UserWarning)\nf()",
    "forks workers": (
        "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
        "    with m.get_context('fork').Pool(2) as p: print(p.map(f, range(5)))"
    ),
    "spawns workers": (
        "import multiprocessing as m\ndef f(q): q.put(__name__)\nif __name__ == '__main__':\n"
        "    c = m.get_context('spawn'); q = c.SimpleQueue(); p = c.Process(target=f, args=(q,)); "
        "p.start()\n    print(q.get()); p.join(); print(p.exitcode)"
    ),
    "imports its neighbour": "import neighbour; print(neighbour.__name__, neighbour.value)",
    "deletes itself": "import os; os.unlink(__file__); raise ValueError('gone')",
}

FILES = {
    "broken.py": "value = undefined",
    "neighbour.py": "value = 5",
    "holder.py": "kept = []\ndef keep(x):\n    kept.append(x)\n    return x",
    "package/__init__.py": "print('package', __name__)",
    "package/__main__.py": (
        "import sys; print(sys.argv, sys.path[0], __name__, __package__, __spec__.name, "
        "__file__); sys.exit(6)"
    ),
    "package/failing.py": "1 / 0",
}

COMMANDS = {
    "a file": ["x.py", "a", "--b=c"],
    "a file by a relative path": ["./x.py"],
    "a file in a folder": ["sub/../x.py"],
    "a file by a link": ["link.py"],
    "a file that is not there": ["missing.py"],
    "a folder": ["package"],
    "a module": ["-m", "neighbour", "a"],
    "a package": ["-m", "package", "--flag"],
    "a module in a package": ["-m", "package.failing"],
    "a module that is not there": ["-m", "missing"],
    "a module in a package that is not there": ["-m", "missing.module"],
    "a package without a main": ["-m", "json"],
    "a module of the library": ["-m", "json.tool", "--help"],
    "code": [
        "-c",
        "import sys; print(sys.argv, repr(sys.path[0]), __name__, '__file__' in globals())",
        "a",
    ],
    "code that fails": ["-c", "def f(): 1 / 0\nf()"],
    "code that prints, then fails": ["-c", "print('before')\n1 / 0"],
    "a module that prints, then fails": ["-m", "x"],
    "code that does not compile": ["-c", "f("],
    "code with an option": ["-u", "-c", "import sys; print(sys.flags.unbuffered)"],
    "no arguments": [],
    "an unknown option": ["--nonsense"],
}


PRELOADED = "import sys; print('tensorflow' in sys.modules)"


@pytest.mark.parametrize(
    "unbuffered", ["", pytest.param("1", marks=pytest.mark.long)], ids=["buffered", "unbuffered"]
)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_forked_program_is_like_one_run_by_hand(
    tensorflow: ForkServer, tmp_path: Path, program: str | bytes, unbuffered: str
) -> None:
    env = {"PYTHONUNBUFFERED": unbuffered}
    assert_alike(tensorflow, tmp_path, program, ["x.py", "1"], env)


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_forked_command_line_is_like_one_typed(
    tensorflow: ForkServer, tmp_path: Path, arguments: list[str]
) -> None:
    program = "import sys; print(sys.argv, sys.path[0], __file__)\n1 / 0"
    assert_alike(tensorflow, tmp_path, program, arguments, {"PYTHONUNBUFFERED": "1"})


@pytest.mark.parametrize(
    "arguments", [["x.py"], ["-m", "x"], ["-c", PRELOADED]], ids=["file", "module", "code"]
)
def test_tensorflow_is_already_there(
    tensorflow: ForkServer, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "x.py").write_text(PRELOADED)
    assert tensorflow.run([sys.executable, *arguments], cwd=tmp_path) == (0, "True\n")


@pytest.mark.parametrize(
    "env",
    [
        {"TF_USE_LEGACY_KERAS": "1"},
        {"PYTHONHASHSEED": "7"},
        {"TF_CPP_MIN_LOG_LEVEL": "1"},
        {"OMP_NUM_THREADS": "3"},
    ],
    ids=str,
)
def test_a_variable_read_only_at_a_start_gets_a_fresh_interpreter(
    tensorflow: ForkServer, env: dict[str, str]
) -> None:
    assert tensorflow.run([sys.executable, "-c", PRELOADED], env=env) == (0, "False\n")


def test_a_module_that_hides_one_in_memory_gets_a_fresh_interpreter(
    tensorflow: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "six.py").write_text("mine = True")
    (tmp_path / "x.py").write_text("import six; print(six.mine)")
    assert tensorflow.run([sys.executable, "x.py"], cwd=tmp_path) == (0, "True\n")


def test_another_interpreter_is_executed(tensorflow: ForkServer, tmp_path: Path) -> None:
    other = tmp_path / "bin" / "python"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho other $*")
    other.chmod(0o755)
    code, said = tensorflow.run(
        ["python", "-c", "1"], env={"PATH": f"{other.parent}:/usr/bin:/bin"}
    )
    # The runner's file and its setting stand before the program.
    assert (code, said.split()[0], said.split()[-2:]) == (0, "other", ["-c", "1"])


def test_the_environment_is_the_tasks(tensorflow: ForkServer) -> None:
    code = (
        "import os, ctypes; g = ctypes.CDLL(None).getenv; g.restype = ctypes.c_char_p; "
        "print(os.environ['A'], g(b'A'), g(b'B'))"
    )
    said = tensorflow.run([sys.executable, "-c", code], env={"A": "b ="})
    assert said == (0, "b = b'b =' None\n")


def test_the_path_of_the_task_replaces_that_of_the_fork_server(
    tensorflow: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("value = 3")
    code = "import sys, mine; print(mine.value, sys.path[1])"
    said = tensorflow.run([sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)})
    assert said == (0, f"3 {tmp_path}\n")


def test_siblings_draw_different_random_numbers(tensorflow: ForkServer) -> None:
    code = "import random, numpy; print(random.random(), numpy.random.rand())"
    drawn = {tensorflow.run([sys.executable, "-c", code]) for _ in range(3)}
    assert len(drawn) == 3


def test_blas_gets_the_threads_it_is_asked_for(tensorflow: ForkServer) -> None:
    code = "import os; print(len(os.listdir('/proc/self/task')) > 1)"
    for count, several in (("2", True), ("1", False)):
        said = tensorflow.run([sys.executable, "-c", code], env={"OPENBLAS_NUM_THREADS": count})
        assert said == (0, f"{several}\n")


def assert_alike(
    server: ForkServer,
    folder: Path,
    program: str | bytes,
    arguments: Sequence[str],
    env: Mapping[str, str],
) -> None:
    """Exit code, output and the file `left` are the same by a fork server and by hand, each in the
    same folder made anew."""
    outcomes, left = [], folder / "left"
    argv = [sys.executable, *arguments]
    for run in (
        lambda: server.run(argv, cwd=folder, env=env),
        lambda: by_hand(argv, folder, {**server.environment, **env}),
    ):
        write(folder, program)
        code, output = run()
        kept = left.read_text() if left.exists() else "no file"
        outcomes.append((code, re.sub(r"0x[0-9a-f]+", "0x", output), kept))
        left.unlink(missing_ok=True)
    assert outcomes[0] == outcomes[1]


def write(folder: Path, program: str | bytes) -> None:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "x.py").write_bytes(program if isinstance(program, bytes) else program.encode())
    if not (folder / "link.py").is_symlink():
        (folder / "link.py").symlink_to("x.py")


def by_hand(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> tuple[int, str]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(argv, cwd=folder, env=env, **streams)
    return done.returncode, done.stdout.decode(errors="replace")
