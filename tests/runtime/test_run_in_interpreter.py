"""Python programs that are executed, not forked: like the same programs run by `python`, and
TensorFlow is changed when they import it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from fork_client import ForkServer
from test_run_script import COMMANDS, PROGRAMS, assert_alike
from test_tensorflow_patches import SHOW, kept

from psclust.spec.python_command import through_entry
from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

FRONT = (
    "import sys; print(any('interpreter_entry.py' in word for word in "
    "open('/proc/self/cmdline').read().split('\\0')))"
)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_an_executed_program_is_like_one_run_by_hand(
    plain: ForkServer, tmp_path: Path, program: str | bytes
) -> None:
    assert_alike(plain, tmp_path, program, ["x.py", "1"], {})


@pytest.mark.parametrize(
    "arguments",
    [*COMMANDS.values(), ["-bu", "-W", "ignore", "x.py", "-u"], ["-I", "x.py"]],
    ids=[*COMMANDS, "options", "isolated"],
)
def test_an_executed_command_line_is_like_one_typed(
    plain: ForkServer, tmp_path: Path, arguments: list[str]
) -> None:
    program = "import sys; print(sys.argv, sys.path[0], __file__, sys.flags)\n1 / 0"
    assert_alike(plain, tmp_path, program, arguments, {})


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "x.py"],
        ["python3", "-m", "x"],
        ["/usr/bin/python3.11", "-u", "x.py", "-i"],
        ["python", "-X", "dev", "-Wignore", "-c", "1"],
    ],
    ids=" ".join,
)
def test_a_python_program_is_run_through_the_runner(argv: list[str]) -> None:
    through = list(through_entry(argv, 1.0))
    entry = next(
        index for index, word in enumerate(through) if word.endswith("interpreter_entry.py")
    )
    assert through[:entry] + through[through.index("1.0") + 1 + entry - 1 :] == argv
    assert through[entry + 1 :] == ["1.0", *argv[1:]]


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "python x.py"],
        ["python"],
        ["python", "-i", "x.py"],
        ["python", "--version"],
        ["python2", "x.py"],
        ["./x.py"],
    ],
    ids=" ".join,
)
def test_what_is_no_python_program_is_not(argv: list[str]) -> None:
    assert through_entry(argv, None) == argv


def test_it_is_not_seen_by_programs_that_hide_a_module_of_it(
    plain: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text(FRONT)
    assert plain.run([sys.executable, "x.py"], cwd=tmp_path) == (0, "True\n")
    (tmp_path / "inspect.py").write_text("")
    assert plain.run([sys.executable, "x.py"], cwd=tmp_path) == (0, "False\n")


def test_an_interpreter_that_cannot_import_psclust_runs_the_program_alone(
    plain: ForkServer, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text("print('ran')")
    for module in ("inspect.py", "psclust.py"):
        (tmp_path / "path").mkdir(exist_ok=True)
        (tmp_path / "path" / module).write_text("raise ImportError")
    code, output = plain.run(
        [sys.executable, "x.py"], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "path")}
    )
    assert (code, output) == (0, "ran\n")


@pytest.mark.long
@pytest.mark.tensorflow
def test_the_recovery_wait_is_lowered_when_the_program_imports_tensorflow(
    plain: ForkServer,
) -> None:
    code, output = plain.run(
        [sys.executable, "-c", SHOW], wait=0.25, env={"TF_CPP_MIN_LOG_LEVEL": "2"}
    )
    assert (code, eval(output.splitlines()[-1])) == (0, kept(0.25))


SERVER = """
import os, sys, threading
import tensorflow.compat.v1 as tf
server = tf.train.Server.create_local_server()
print("serves", flush=True)
"""


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("end", "phase"),
    [
        ("server.join()", "serving"),
        pytest.param("sys.exit(0)", "finished", marks=pytest.mark.long),
    ],
)
def test_a_join_is_said_and_a_script_that_ended_well_keeps_its_server(
    plain: ForkServer, tmp_path: Path, end: str, phase: str
) -> None:
    env = {"PSCLUST_PROGRESS": str(tmp_path / "progress.json"), "TF_CPP_MIN_LOG_LEVEL": "2"}
    task = plain.start([sys.executable, "-c", SERVER + end], env=env)
    wait_until(lambda: phase in read(tmp_path / "progress.json"), what=phase)
    assert os.waitpid(task.pid, os.WNOHANG) == (0, 0)
    assert task.kill(signal.SIGTERM)[0] == -signal.SIGTERM


TRAPS = """
import os, signal, sys, threading, time
def leave(number, frame):
    print("leaves", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
"""


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("end", "phase", "code", "says"),
    [
        ("server.join()", "serving", 0, "leaves"),
        (
            "open(os.environ['READY'], 'w').write('ready')\nwhile True: time.sleep(0.1)",
            "ready",
            0,
            "leaves",
        ),
        ("", "finished", -signal.SIGTERM, "serves"),
    ],
)
def test_a_script_that_traps_sigterm_ends_by_its_own_handler(
    plain: ForkServer, tmp_path: Path, end: str, phase: str, code: int, says: str
) -> None:
    env = {
        "PSCLUST_PROGRESS": str(tmp_path / "progress.json"),
        "READY": str(tmp_path / "ready"),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    task = plain.start([sys.executable, "-c", TRAPS + SERVER + end], env=env)
    wait_until(
        lambda: phase in read(tmp_path / "progress.json") + read(tmp_path / "ready"), what=phase
    )
    ended, output = task.kill(signal.SIGTERM)
    assert (ended, output.splitlines()[-1]) == (code, says)


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("end", "env", "code"),
    [("sys.exit(4)", {}, 4), ("", {"PSCLUST_REPLICATION": "between-graph"}, 0)],
)
def test_the_server_of_a_failed_script_or_of_a_psclust_program_ends_with_it(
    plain: ForkServer, tmp_path: Path, end: str, env: dict[str, str], code: int
) -> None:
    env = {"PSCLUST_PROGRESS": str(tmp_path / "progress.json"), "TF_CPP_MIN_LOG_LEVEL": "2", **env}
    assert plain.run([sys.executable, "-c", SERVER + end], env=env)[0] == code


@pytest.mark.long
@pytest.mark.tensorflow
def test_a_server_in_a_process_that_the_program_forks_is_not_the_program(
    plain: ForkServer, tmp_path: Path
) -> None:
    env = {"PSCLUST_PROGRESS": str(tmp_path / "progress.json"), "TF_CPP_MIN_LOG_LEVEL": "2"}
    program = (
        "import os, signal, sys\nimport tensorflow.compat.v1 as tf\nsaid, say = os.pipe()\n"
        "child = os.fork()\nif child == 0:\n    server = tf.train.Server.create_local_server(); "
        "os.write(say, b's'); server.join()\nos.read(said, 1)\nimport time; time.sleep(1)\n"
        "os.kill(child, signal.SIGKILL); os.waitpid(child, 0)\nprint('ends')\n"
    )
    code, output = plain.run([sys.executable, "-c", program], env=env)
    assert (code, output.splitlines()[-1]) == (0, "ends")
    assert read(tmp_path / "progress.json") == ""


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
