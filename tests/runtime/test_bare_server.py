"""Bare servers and plain Python ones, forked and executed, for real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fork_client import ForkServer
from servers import ENVIRONMENT, PYTHON_SERVER, SERVER, Ports, answers, command, listeners, root

from psclust.errors import UsageError
from psclust.runtime.server_request import parse
from psclust.testing.wait import wait_until

CLUSTER = '{"ps":["a:1","b:2"]}'
PS = f"--cluster {CLUSTER} --job ps --task"


def test_a_command_line_names_one_task_of_a_cluster() -> None:
    words = f"{PS} 1 --threads 3 --load-library a.so --load-library=b.so --device-count 4"
    request = parse(words.split())
    assert (request.name, request.listens_on, request.threads) == ("ps:1", 2, 3)
    assert (request.op_libraries, request.devices) == (("a.so", "b.so"), 4)


def test_a_port_of_its_own_comes_before_that_of_the_cluster() -> None:
    assert parse(f"{PS} 1 --port 7".split()).listens_on == 7


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--job ps --task 0", "--cluster"),
        ("--cluster { --job ps --task 0", "--cluster: not a cluster spec in JSON"),
        (f"{PS} 2", "ps:2 is not in the cluster, which has ps:0, ps:1"),
        (f"--cluster {CLUSTER} --job worker --task 0", "worker:0 is not in the cluster"),
        ("--cluster {} --job worker --task 0", "which has no task"),
        (f"{PS} x", "invalid int value"),
        (f"{PS} 0 --port 70000", "'70000' is not a number from 1 to 65535"),
        (f"{PS} 0 --threads 0", "'0' is not a number from 1 to"),
        (f"{PS} 0 --nonsense", "unrecognized arguments: --nonsense"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(words: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words.split())
    assert sentence in str(caught.value)


@pytest.mark.process
@pytest.mark.tensorflow
class TestForked:
    def test_it_serves_in_silence_until_it_is_told_to_end(
        self, library: ForkServer, ports: Ports
    ) -> None:
        port = ports.take()
        server = library.start(
            command(SERVER, {"ps": [f"127.0.0.1:{port}"]}, "ps", 0),
            env=ENVIRONMENT | {"PSCLUST_TASK": "ps:0"},
        )
        wait_until(lambda: answers(port))
        assert Path(f"/proc/{server.pid}/comm").read_text() == "ps:0\n"
        assert server.kill(signal.SIGTERM) == (-signal.SIGTERM, "")
        assert not listeners(port)

    def test_a_busy_port_is_named(self, library: ForkServer) -> None:
        with socket.create_server(("", 0)) as holder:
            port = holder.getsockname()[1]
            code, output = library.run(command(SERVER, {"ps": [f"127.0.0.1:{port}"]}, "ps", 0))
        assert code == 3
        assert output.splitlines()[-1].startswith(
            f"ps:0: cannot listen on port {port}: Address already in use; stop"
        )

    def test_an_address_without_a_port_is_told_in_the_librarys_words(
        self, library: ForkServer
    ) -> None:
        code, output = library.run(command(SERVER, {"ps": ["here"]}, "ps", 0))
        assert code == 3
        assert output.splitlines()[-1].startswith("ps:0: TensorFlow could not start its server: ")

    def test_a_wrong_request_is_usage(self, library: ForkServer) -> None:
        sentence = "worker:0 is not in the cluster, which has ps:0\n"
        assert library.run(command(SERVER, {"ps": ["a:1"]}, "worker", 0)) == (2, sentence)

    def test_an_op_library_that_is_not_there_is_named(self, library: ForkServer) -> None:
        code, output = library.run(
            command(SERVER, {"ps": ["a:1"]}, "ps", 0, "--load-library", "/no/ops.so")
        )
        assert code == 3
        assert output.startswith(
            "ps:0: the op library /no/ops.so cannot be loaded: /no/ops.so: "
            "cannot open shared object file"
        )

    def test_a_variable_that_the_loaded_library_has_read_gets_a_process_of_its_own(
        self, library: ForkServer, ports: Ports
    ) -> None:
        port = ports.take()
        argv = command(SERVER, {"ps": [f"127.0.0.1:{port}"]}, "ps", 0)
        forked, executed = library.start(argv, env=ENVIRONMENT), None
        try:
            executed = library.start(
                argv, env={**ENVIRONMENT, "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONPATH": root()}
            )
            wait_until(lambda: command_line(executed.pid)[3:5] == ["-m", SERVER])
            assert command_line(forked.pid) != command_line(executed.pid)
        finally:
            for task in filter(None, (forked, executed)):
                task.kill(signal.SIGKILL)


def command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


@pytest.mark.process
@pytest.mark.tensorflow
def test_an_executed_server_serves_and_listens_on_another_port(ports: Ports) -> None:
    dialled, listened = ports.take(), ports.take()
    argv = command(
        SERVER, {"ps": [f"127.0.0.1:{dialled}"]}, "ps", 0, "--port", str(listened), "--threads", "1"
    )
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": root()}
    with subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL) as server:
        wait_until(lambda: answers(listened))
        assert not answers(dialled)
        server.terminate()
    assert server.returncode == -signal.SIGTERM


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.parametrize("library", ["none", "another"])
def test_where_tensorflow_has_no_c_library_the_server_is_that_of_python(
    tmp_path: Path, ports: Ports, library: str
) -> None:
    if library == "another":
        source = tmp_path / "other.c"
        source.write_text("int nothing;")
        made = tmp_path / "libtensorflow_cc.so.2"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", made, source], check=True)
    port, log = ports.take(), tmp_path / "log"
    env = {**os.environ, **ENVIRONMENT, "PYTHONPATH": root(), "PSCLUST_TENSORFLOW": str(tmp_path)}
    argv = command(SERVER, {"ps": [f"127.0.0.1:{port}"]}, "ps", 0)
    with log.open("wb") as file, subprocess.Popen(argv, env=env, stderr=file) as server:
        wait_until(lambda: answers(port))
        server.terminate()
    assert "its Python server is used, which starts more slowly" in log.read_text()


@pytest.mark.process
def test_a_server_without_tensorflow_says_what_to_install(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.append({root()!r}); "
        "from psclust.runtime.bare_server import serve; serve(sys.argv[1:])"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, *command(SERVER, {"ps": ["a:1"]}, "ps", 0)[3:]]
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "libtensorflow_cc.so.2").write_text("not a library")
    missing = f"TensorFlow is not installed for {sys.executable}: pip install tensorflow\n"
    for told, sentence in (
        ({}, missing),
        ({"PSCLUST_TENSORFLOW": str(tmp_path)}, f"{tmp_path}: no libtensorflow_cc.so.2"),
        ({"PSCLUST_TENSORFLOW": str(tmp_path / "broken")}, "cannot be used as TensorFlow's"),
    ):
        env = {name: value for name, value in os.environ.items() if name != "PSCLUST_TENSORFLOW"}
        done = subprocess.run(argv, env=env | told, capture_output=True, text=True)
        assert done.returncode == 3
        assert sentence in done.stderr


@pytest.mark.process
@pytest.mark.tensorflow
def test_a_plain_python_server_says_what_is_wrong(tensorflow: ForkServer) -> None:
    with socket.create_server(("", 0)) as holder:
        port = holder.getsockname()[1]
        code, output = tensorflow.run(
            command(PYTHON_SERVER, {"ps": [f"127.0.0.1:{port}"]}, "ps", 0), cwd=root()
        )
    assert code == 3
    assert output.splitlines()[-1].startswith(
        f"ps:0: cannot listen on port {port}: Address already in use"
    )
    wrong = tensorflow.run(command(PYTHON_SERVER, {"ps": ["a:1"]}, "ps", 9), cwd=root())
    assert wrong == (2, "ps:9 is not in the cluster, which has ps:0\n")
