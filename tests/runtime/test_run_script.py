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
    "ends": "print('done')",
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
    "fails in a group of calls": "import json\njson.loads('{')",
    "exits with a number": "import sys; sys.exit(3)",
    "exits with a large number": "import sys; sys.exit(259)",
    "exits with a negative number": "import sys; sys.exit(-2)",
    "exits with nothing": "import sys; sys.exit()",
    "exits with true": "import sys; sys.exit(True)",
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
    "prints much": "for i in range(20000): print(i)",
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
    "logs": (
        "import logging\nlogging.basicConfig(level='INFO'); logging.info('x'); logging.warning('y')"
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
    "uses futures": (
        "from concurrent.futures import ThreadPoolExecutor as E\n"
        "with E(2) as e: print(list(e.map(abs, [-1, 2])))"
    ),
    "uses asyncio": (
        "import asyncio\nasync def f(): await asyncio.sleep(0); return 3\nprint(asyncio.run(f()))"
    ),
    "recurses": "def f(n): return n and f(n - 1)\nprint(f(900))",
    "pickles its class": (
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)"
    ),
    "has annotations": "x: int = 3\nprint(__annotations__)",
    "imports its neighbour": "import neighbour; print(neighbour.__name__, neighbour.value)",
    "deletes itself": "import os; os.unlink(__file__); raise ValueError('gone')",
    "has a temporary folder": (
        "import tempfile; d = tempfile.TemporaryDirectory(); "
        "print(d.name.startswith(tempfile.gettempdir()))"
    ),
    "runs with a subclass of its own error": "class E(Exception): pass\nraise E('a', 2)",
    "adds notes": "e = ValueError('x')\ngetattr(e, 'add_note', print)('a note')\nraise e",
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
    forked, by_hand = both(tensorflow, tmp_path, program, ["x.py", "1"], unbuffered)
    assert forked == by_hand


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_forked_command_line_is_like_one_typed(
    tensorflow: ForkServer, tmp_path: Path, arguments: list[str]
) -> None:
    forked, by_hand = both(
        tensorflow,
        tmp_path,
        "import sys; print(sys.argv, sys.path[0], __file__)\n1 / 0",
        arguments,
        "1",
    )
    assert forked == by_hand


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
    assert tensorflow.run([sys.executable, "-c", code], env={"A": "b ="}) == (
        0,
        "b = b'b =' None\n",
    )


def test_the_path_of_the_task_replaces_that_of_the_fork_server(
    tensorflow: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("value = 3")
    code = "import sys, mine; print(mine.value, sys.path[1])"
    assert tensorflow.run([sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}) == (
        0,
        f"3 {tmp_path}\n",
    )


def test_siblings_draw_different_random_numbers(tensorflow: ForkServer) -> None:
    code = "import random, numpy; print(random.random(), numpy.random.rand())"
    drawn = {tensorflow.run([sys.executable, "-c", code]) for _ in range(3)}
    assert len(drawn) == 3


def test_blas_gets_the_threads_it_is_asked_for(tensorflow: ForkServer) -> None:
    code = "import os; print(len(os.listdir('/proc/self/task')) > 1)"
    assert tensorflow.run([sys.executable, "-c", code], env={"OPENBLAS_NUM_THREADS": "2"}) == (
        0,
        "True\n",
    )
    assert tensorflow.run([sys.executable, "-c", code], env={"OPENBLAS_NUM_THREADS": "1"}) == (
        0,
        "False\n",
    )


def both(
    server: ForkServer,
    folder: Path,
    program: str | bytes,
    arguments: Sequence[str],
    unbuffered: str,
) -> list[tuple[int, str, str]]:
    """Exit code, output and the file `left`, forked and by hand, each in the same folder made
    anew."""
    env = {"PYTHONUNBUFFERED": unbuffered}
    argv = [sys.executable, *arguments]
    outcomes = []
    for forked in (True, False):
        write(folder, program)
        code, output = (
            server.run(argv, cwd=folder, env=env)
            if forked
            else by_hand(argv, folder, {**server.environment, **env})
        )
        left = folder / "left"
        outcomes.append(
            (
                code,
                re.sub(r"0x[0-9a-f]+", "0x", output),
                left.read_text() if left.exists() else "no file",
            )
        )
        left.unlink(missing_ok=True)
    return outcomes


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
    done = subprocess.run(
        argv,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")
