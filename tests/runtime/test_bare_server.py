"""Bare servers and plain Python ones, forked and executed, for real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fork_client import ForkServer, Task
from servers import ENVIRONMENT, PYTHON_SERVER, SERVER, Ports, answers, command, listeners, root

from psclust.errors import UsageError
from psclust.runtime.server_request import parse
from psclust.testing.wait import wait_until

CLUSTER = '{"ps": ["a:1", "b:2"]}'


def test_a_command_line_names_one_task_of_a_cluster() -> None:
    request = parse(
        [
            "--cluster",
            CLUSTER,
            "--job",
            "ps",
            "--task",
            "1",
            "--threads",
            "3",
            "--load-library",
            "a.so",
            "--load-library=b.so",
        ]
    )
    assert (request.name, request.listens_on, request.threads, request.op_libraries) == (
        "ps:1",
        2,
        3,
        ("a.so", "b.so"),
    )
    assert (
        parse(["--cluster", CLUSTER, "--job", "ps", "--task", "1", "--device-count", "4"]).devices
        == 4
    )


def test_a_port_of_its_own_comes_before_that_of_the_cluster() -> None:
    assert (
        parse(["--cluster", CLUSTER, "--job", "ps", "--task", "1", "--port", "7"]).listens_on == 7
    )


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--job", "ps", "--task", "0"], "--cluster"),
        (["--cluster", "{", "--job", "ps", "--task", "0"], "--cluster: not a cluster spec in JSON"),
        (
            ["--cluster", CLUSTER, "--job", "ps", "--task", "2"],
            "ps:2 is not in the cluster, which has ps:0, ps:1",
        ),
        (
            ["--cluster", CLUSTER, "--job", "worker", "--task", "0"],
            "worker:0 is not in the cluster",
        ),
        (["--cluster", "{}", "--job", "worker", "--task", "0"], "which has no task"),
        (["--cluster", CLUSTER, "--job", "ps", "--task", "x"], "invalid int value"),
        (
            ["--cluster", CLUSTER, "--job", "ps", "--task", "0", "--port", "70000"],
            "'70000' is not a number from 1 to 65535",
        ),
        (
            ["--cluster", CLUSTER, "--job", "ps", "--task", "0", "--threads", "0"],
            "'0' is not a number from 1 to",
        ),
        (
            ["--cluster", CLUSTER, "--job", "ps", "--task", "0", "--nonsense"],
            "unrecognized arguments: --nonsense",
        ),
    ],
)
def test_a_wrong_command_line_is_one_sentence(argv: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(argv)
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
        assert library.run(command(SERVER, {"ps": ["a:1"]}, "worker", 0)) == (
            2,
            "worker:0 is not in the cluster, which has ps:0\n",
        )

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
            wait_until(lambda: command_line(executed.pid)[1:3] == ["-m", SERVER])
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
    env = {name: value for name, value in os.environ.items() if name != "PSCLUST_TENSORFLOW"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        3,
        f"TensorFlow is not installed for {sys.executable}: pip install tensorflow\n",
    )
    done = subprocess.run(
        argv,
        env={**env, "PSCLUST_TENSORFLOW": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.startswith(f"{tmp_path}: no libtensorflow_cc.so.2")) == (
        3,
        True,
    )
    (tmp_path / "libtensorflow_cc.so.2").write_text("not a library")
    done = subprocess.run(
        argv,
        env={**env, "PSCLUST_TENSORFLOW": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "cannot be used as TensorFlow's C library" in done.stderr) == (3, True)


TRAIN = """
import sys, numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
target = sys.argv[1]
with tf.device("/job:ps/task:0"):
    w = tf.get_variable("w", [3, 1], initializer=tf.zeros_initializer())
with tf.device("/job:ps/task:1"):
    b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
x = np.random.RandomState(0).rand(64, 3).astype("f")
y = x @ np.array([[1.0], [-2.0], [0.5]], "f") + 0.25
with tf.device("/job:worker/task:0"):
    loss = tf.reduce_mean((tf.matmul(x, w) + b - y) ** 2)
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
with tf.Session(target) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(300):
        session.run(train)
    devices = session.list_devices()
    one_each = len({d.incarnation for d in devices}) == len(devices)
    kinds = {d.device_type for d in devices}
    print(session.run(loss) < 1e-3, len(devices), one_each, kinds)
"""


@pytest.mark.process
@pytest.mark.tensorflow
def test_a_forked_client_trains_on_servers_of_both_kinds(
    library: ForkServer, tensorflow: ForkServer, ports: Ports
) -> None:
    numbers = [ports.take() for _ in range(3)]
    ps0, ps1, worker = (f"127.0.0.1:{number}" for number in numbers)
    cluster = {"ps": [ps0, ps1], "worker": [worker]}
    servers: list[Task] = []
    try:
        for server, module, job, index in (
            (library, SERVER, "ps", 0),
            (tensorflow, PYTHON_SERVER, "ps", 1),
            (library, SERVER, "worker", 0),
        ):
            servers.append(
                server.start(command(module, cluster, job, index), env=ENVIRONMENT, cwd=root())
            )
        wait_until(lambda: all(map(answers, numbers)))
        code, output = tensorflow.run([sys.executable, "-c", TRAIN, f"grpc://{worker}"])
        assert (code, output.splitlines()[-1]) == (0, "True 3 True {'CPU'}")
    finally:
        outputs = [task.kill(signal.SIGTERM) for task in servers]
    assert [code for code, _ in outputs] == [-signal.SIGTERM] * 3


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
    assert tensorflow.run(command(PYTHON_SERVER, {"ps": ["a:1"]}, "ps", 9), cwd=root()) == (
        2,
        "ps:9 is not in the cluster, which has ps:0\n",
    )
