"""Real fork servers, asked by a small supervisor: this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fork_client import PROGRAM, ForkServer

from psclust.testing.wait import wait_until

pytestmark = pytest.mark.process

SLEEP = ["sleep", "60"]
NOT_EXECUTABLE = "cannot be executed: it is a folder or lacks execute permission"
NO_FOLDER = "cannot be the working folder"


def test_it_says_that_it_is_ready_and_how_long_that_took(plain: ForkServer) -> None:
    assert plain.first_message["ready"] is True
    assert 0 <= plain.first_message["preload_s"] < 5


def test_a_task_is_a_child_that_leads_its_own_session(plain: ForkServer) -> None:
    for _ in range(10):
        task = plain.start(SLEEP)
        assert os.getsid(task.pid) == os.getpgid(task.pid) == task.pid
        assert os.waitpid(task.pid, os.WNOHANG) == (0, 0), (
            "waitpid knows it as a child of this process"
        )
        os.killpg(task.pid, signal.SIGTERM)
        assert task.end() == (-signal.SIGTERM, "")


def test_a_task_has_its_output_and_nothing_else_open(plain: ForkServer) -> None:
    code, listing = plain.run(["ls", "-l", "/proc/self/fd"])
    links = dict(line.split()[-3::2] for line in listing.splitlines()[1:])
    assert code == 0
    assert links["0"] == "/dev/null"
    assert links["1"] == links["2"]
    assert links["1"].startswith("pipe:")
    assert set(links) <= {"0", "1", "2", "3"}, "3 is the folder that ls reads"


def test_a_task_gets_its_environment_and_folder(plain: ForkServer, tmp_path: Path) -> None:
    code, said = plain.run(
        ["sh", "-c", "pwd; env"],
        cwd=tmp_path,
        changed={"env": {"PATH": "/usr/bin:/bin", "A": "b=c d"}},
    )
    folder, *lines = said.splitlines()
    assert (code, folder) == (0, str(tmp_path))
    of_sh = ("PWD=", "_=", "SHLVL=")
    assert {line for line in lines if not line.startswith(of_sh)} == {
        "PATH=/usr/bin:/bin",
        "A=b=c d",
    }


def test_signals_are_those_of_a_new_process(plain: ForkServer) -> None:
    _, status = plain.run(["cat", "/proc/self/status"])
    sets = dict(
        line.split()
        for line in status.splitlines()
        if line.startswith(("SigIgn", "SigBlk", "SigCgt"))
    )
    # The 31 standard signals; the C library keeps those above to itself, and the process that runs
    # the tests may have had them set.
    standard = {name: int(signals, 16) & 0x7FFFFFFF for name, signals in sets.items()}
    assert standard == {"SigBlk:": 0, "SigIgn:": 0, "SigCgt:": 0}


@pytest.mark.parametrize(
    ("argv", "cwd", "code", "sentence"),
    [
        (["no-such-command"], "/", 127, "no-such-command: command not found on the task's PATH\n"),
        (["/no/such/command"], "/", 127, "/no/such/command: command not found\n"),
        (["/etc/passwd"], "/", 126, f"/etc/passwd: {NOT_EXECUTABLE}\n"),
        (["/etc"], "/", 126, f"/etc: {NOT_EXECUTABLE}\n"),
        (["true"], "/no/such", 126, f"/no/such: {NO_FOLDER}: No such file or directory\n"),
        (["true"], "/etc/passwd", 126, f"/etc/passwd: {NO_FOLDER}: Not a directory\n"),
    ],
)
def test_what_cannot_be_run_says_why(
    plain: ForkServer, argv: list[str], cwd: str, code: int, sentence: str
) -> None:
    assert plain.run(argv, cwd=cwd) == (code, sentence)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("echo no first line", "not a program for this machine, nor a script with a #! line"),
        ("#!/no/such\n", "was not found"),
    ],
)
def test_a_script_that_cannot_be_run_says_why(
    plain: ForkServer, tmp_path: Path, content: str, sentence: str
) -> None:
    script = tmp_path / "script"
    script.write_text(content)
    script.chmod(0o755)
    code, output = plain.run([str(script)])
    assert code in (126, 127)
    assert output.startswith(f"{script}: ")
    assert sentence in output


def test_a_long_request_arrives_whole(plain: ForkServer) -> None:
    long = "x" * 100_000
    assert plain.run(["sh", "-c", 'echo "$A$B" | wc -c'], env={"A": long, "B": long}) == (
        0,
        "200001\n",
    )


def test_it_ignores_the_signals_of_a_terminal_and_ends_with_its_socket() -> None:
    server = ForkServer("nothing", ["-I", "-S"])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        server.process.send_signal(number)
    assert server.run(["true"]) == (0, "")
    assert server.close() == 0


def test_a_killed_fork_server_leaves_its_tasks_alone() -> None:
    server = ForkServer("nothing", ["-I", "-S"])
    task = server.start(["sh", "-c", "echo started; sleep 60"])
    assert task.read(8) == "started\n"
    server.process.kill()
    server.process.wait()
    assert os.waitpid(task.pid, os.WNOHANG) == (0, 0)
    os.killpg(task.pid, signal.SIGKILL)
    assert task.end() == (-signal.SIGKILL, "")


SUPERVISOR = """
import sys
sys.path[:0] = {paths!r}
from fork_client import ForkServer, subreaper
with subreaper():
    server = ForkServer("nothing", ["-I", "-S"])
    task = server.start(["sleep", "60"])
    print(server.process.pid, task.pid, flush=True)
    sys.stdin.read()
"""


def test_tasks_and_fork_servers_die_with_a_killed_supervisor() -> None:
    code = SUPERVISOR.format(paths=[str(Path(__file__).parent), str(PROGRAM.parents[2])])
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as supervisor:
        assert supervisor.stdout is not None
        pids = [int(word) for word in supervisor.stdout.readline().split()]
        assert len(pids) == 2
        supervisor.kill()
    wait_until(lambda: not any(map(running, pids)), what="the end of both")


def running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_a_task_whose_supervisor_is_gone_does_not_run(plain: ForkServer) -> None:
    code, said = plain.run(["echo", "ran"], changed={"supervisor": 1})
    assert code == 1
    assert said.startswith("the supervisor, process 1, is gone")


@pytest.mark.tensorflow
def test_keras_is_imported_by_the_first_who_uses_it(tensorflow: ForkServer) -> None:
    source = (
        "import sys, tensorflow as tf; print('keras' in sys.modules, tf.keras.__name__, "
        "'keras' in sys.modules)"
    )
    code, said = tensorflow.run([sys.executable, "-c", source])
    assert (code, said.split()) == (0, ["False", "keras._tf_keras.keras", "True"])


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("preload", "environment"),
    [
        ("keras", {}),
        pytest.param("tensorflow", {"TF_USE_LEGACY_KERAS": "1"}, marks=pytest.mark.long),
    ],
)
def test_keras_is_there_where_it_is_asked_for_or_registers_optimizers(
    preload: str, environment: dict[str, str]
) -> None:
    server = ForkServer(preload, env={**os.environ, **environment})
    source = "import sys; print({'keras', 'tf_keras'} & {*sys.modules} != set())"
    assert server.run([sys.executable, "-c", source]) == (0, "True\n")
    assert server.close() == 0


@pytest.mark.tensorflow
def test_what_a_psclust_program_imports_is_there() -> None:
    server = ForkServer("psclust")
    source = (
        "import sys; there = len(sys.modules); import psclust.train.command_line; "
        "print(len(sys.modules) - there)"
    )
    assert server.run([sys.executable, "-c", source]) == (0, "0\n")
    assert server.close() == 0


@pytest.mark.tensorflow
def test_after_the_import_the_interpreter_is_as_before(tensorflow: ForkServer) -> None:
    source = "import gc, typing; print(gc.isenabled(), 'compile' in vars(typing))"
    assert tensorflow.run([sys.executable, "-c", source]) == (0, "True False\n")


@pytest.mark.tensorflow
@pytest.mark.parametrize("preload", ["library", "tensorflow"])
def test_an_interpreter_without_tensorflow_is_named(preload: str) -> None:
    server = ForkServer(preload, ["-I", "-S"])
    message = server.first_message["error"]
    assert sys.executable in message
    assert "pip install tensorflow" in message
    assert server.process.wait(300) == 0


@pytest.mark.tensorflow
def test_a_broken_tensorflow_is_told_with_the_last_line_of_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise RuntimeError('half installed')")
    server = ForkServer("tensorflow", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert server.first_message["error"].endswith("RuntimeError: half installed")


@pytest.mark.tensorflow
def test_a_thread_that_an_import_starts_is_found(tmp_path: Path) -> None:
    package = tmp_path / "tensorflow"
    (package / "compat").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), "
        "daemon=True).start()"
    )
    (package / "compat" / "__init__.py").touch()
    (package / "compat" / "v1.py").touch()
    server = ForkServer("tensorflow", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert "started 1 thread" in server.first_message["error"]


def test_it_ends_when_nobody_waits_for_its_first_message() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        words = ["--preload", "nothing", "--socket", str(theirs.fileno())]
        argv = [sys.executable, "-I", "-S", str(PROGRAM), *words]
        done = subprocess.run(argv, pass_fds=[theirs.fileno()], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
