"""Programs as people have them, unchanged, on real TensorFlow servers."""

from __future__ import annotations

import json
import subprocess
import sys

import psutil
import pytest

from beds.command import CommandBed, typed
from beds.free_ports import free_ports
from beds.scripts import CLASSIC, COORDINATOR, DIAL, MODEL, OWN_SERVERS, SERVE
from psclust.testing.wait import wait_until

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

SUPERVISOR = (
    """
import os, json
cluster = json.loads(os.environ["CLUSTER_SPEC"])
job_name, task_index = os.environ["JOB_NAME"], int(os.environ["TASK_INDEX"])
"""
    + SERVE
    + MODEL
    + """
sv = tf.train.Supervisor(is_chief=task_index == 0, global_step=step, logdir=None)
# Without filters a session waits for every task, also for a worker that has ended already.
filters = ["/job:ps", f"/job:worker/task:{task_index}"]
with sv.managed_session(server.target, config=tf.ConfigProto(device_filters=filters)) as s:
    while s.run(step) < 200:
        s.run(train)
    print("trained to", s.run(loss))
"""
)


def test_a_tf1_script_with_the_classic_flags_runs_unchanged(bed: CommandBed) -> None:
    bed.write("train.py", CLASSIC)
    said = bed.done("up", "--ps", "2", "--workers", "2", "train.py")
    assert "role_by: flags" in said
    assert said.count("trained to") == 2
    # Its own value stays, the default is lowered.
    assert "worker:1 | recovery wait 30 1.0" in said


@pytest.mark.long
def test_the_recovery_wait_can_be_left_alone(bed: CommandBed) -> None:
    bed.write("train.py", CLASSIC)
    bed.write("psclust.yaml", "{jobs: {ps: 1, worker: 1}, program: train.py, recovery_wait: false}")
    assert "worker:0 | recovery wait 30 30" in bed.done("up")


@pytest.mark.long
def test_a_script_told_by_environment_templates_with_a_supervisor(bed: CommandBed) -> None:
    bed.write("train.py", SUPERVISOR)
    env = "--env CLUSTER_SPEC={cluster} --env JOB_NAME={job_name} --env TASK_INDEX={task_index}"
    said = bed.done(*typed(f"up --ps 1 --workers 2 {env} train.py"))
    assert said.count("trained to") == 2
    assert "role_by" not in said


@pytest.mark.parametrize(
    "word",
    [[], pytest.param(["--replication", "coordinator"], marks=pytest.mark.long)],
    ids=["", "asked"],
)
def test_a_coordinator_script_runs_in_the_chief_alone(bed: CommandBed, word: list[str]) -> None:
    bed.write("train.py", COORDINATOR)
    said = bed.done("up", "--ps", "2", "--workers", "2", *word, "train.py")
    assert ("train.py coordinates the workers" in said) is (not word)
    assert "chief:0  | task chief trained to True variable on /job:ps/replica:0/task:" in said


@pytest.mark.long
def test_a_tf2_script_that_starts_its_own_servers_on_ps_and_workers(bed: CommandBed) -> None:
    bed.write("train.py", OWN_SERVERS)
    said = bed.done("up", "--ps", "1", "--workers", "2", "train.py")
    assert "psclust adds its chief" in said
    assert "chief:0  | task chief trained to True" in said
    assert bed.wait_for("worker:1", "stopped")


@pytest.mark.long
def test_bare_servers_are_dialled_by_another_client_and_listen_on_one_interface(
    bed: CommandBed,
) -> None:
    said = bed.done("up", "-d", "--ps", "2", "--workers", "2")
    target = next(line.split("'")[1] for line in said.splitlines() if "dial it" in line)
    client = subprocess.run(
        [sys.executable, "-c", DIAL, target], capture_output=True, text=True, timeout=300
    )
    assert "dialled 2.0" in client.stdout, client.stderr
    status = bed.status()
    ports = {int(task.address.rpartition(":")[2]) for task in status.tasks if task.address}
    listening = [
        entry.laddr
        for entry in psutil.net_connections("tcp")
        if entry.status == psutil.CONN_LISTEN and entry.laddr.port in ports
    ]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert {address.port for address in listening} == ports
    bed.done("down")
    wait_until(lambda: not bed.bound_ports(status), what="the ports to be free")


def test_a_module_with_arguments_of_its_own(bed: CommandBed) -> None:
    (bed.folder / "pkg").mkdir()
    bed.write("pkg/__init__.py", "")
    bed.write(
        "pkg/train.py",
        "import sys, os\nprint('argv', sys.argv[1:], __name__, 'TF_CONFIG' in os.environ)\n",
    )
    said = bed.done(
        "up", "--job", "ps=0", "--workers", "1", "--no-preload", "-m", "pkg.train", "--name", "mine"
    )
    assert "worker:0 | argv ['--name', 'mine'] __main__ True" in said


def test_an_interpreter_without_tensorflow_is_a_sentence(bed: CommandBed) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(bed.folder / "empty")], check=True
    )
    python = str(bed.folder / "empty" / "bin" / "python")
    said = bed.fails(3, "up", "--python", python)
    assert "TensorFlow is not installed" in said
    assert python in said
    assert "Traceback" not in said


@pytest.mark.long
def test_python_servers_serve_too(bed: CommandBed) -> None:
    bed.write(
        "psclust.yaml", "jobs: {ps: {count: 1, server: python}, worker: {count: 1, server: python}}"
    )
    bed.done("up", "-d")
    said = bed.done("ps", "--json")
    assert [task["phase"] for task in json.loads(said)["tasks"]] == ["running", "running"]
    bed.done("down")


FIXED = """
import sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
sys.path.insert(0, "lib")
import place
cluster = tf.train.ClusterSpec(place.ADDRESSES)
job, index = sys.argv[1].split("/")
server = tf.train.Server(cluster, job_name=job, task_index=int(index))
if job != "master":
    server.join()
with tf.device("/job:worker/task:1"):
    answer = tf.constant(20) + 22
with tf.Session(server.target) as s:
    print("the answer is", s.run(answer), "at", server.target)
"""


@pytest.mark.long
def test_free_job_names_addresses_fixed_in_the_script_and_a_folder_of_its_own(
    bed: CommandBed,
) -> None:
    first = free_ports(3)
    addresses = {
        "master": [f"127.0.0.1:{first}"],
        "worker": [f"127.0.0.1:{first + 1}", f"127.0.0.1:{first + 2}"],
    }
    (bed.folder / "elsewhere" / "lib").mkdir(parents=True)
    bed.write("elsewhere/lib/place.py", f"ADDRESSES = {addresses}\n")
    bed.write("elsewhere/train.py", FIXED)
    jobs = {job: {"addresses": found} for job, found in addresses.items()}
    bed.write(
        "psclust.yaml",
        json.dumps(
            {
                "jobs": jobs,
                "program": "train.py",
                "cwd": "elsewhere",
                "args": ["{job_name}/{task_index}"],
            }
        ),
    )
    assert "the answer is 42" in bed.done("up")
    found = [task.address for task in bed.status().tasks]
    assert found == [*addresses["master"], *addresses["worker"]]


EARLY = """
import os, time
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
me = int(os.environ["INDEX"])
cluster = tf.train.ClusterSpec({"worker": os.environ["WORKERS"].split(",")})
server = tf.train.Server(cluster, job_name="worker", task_index=me)
if me == 1:
    while not os.path.exists("first-has-ended"):
        time.sleep(0.02)
    # No device filters: this session contacts worker:0 as well, whose program has ended.
    with tf.Session(server.target) as s:
        print("found", len(s.list_devices()), "devices")
import atexit
atexit.register(lambda: open("first-has-ended", "w").close() if me == 0 else None)
"""


def test_a_late_session_does_not_hang_on_a_worker_that_has_ended_well(bed: CommandBed) -> None:
    bed.write("train.py", EARLY)
    env = "--env INDEX={task_index} --env WORKERS={worker_hosts}"
    assert "worker:1 | found" in bed.done(*typed(f"up --job ps=0 --workers 2 {env} train.py"))
    assert [(task.phase, task.exit_code) for task in bed.status().tasks] == [("done", 0)] * 2


@pytest.mark.long
def test_a_script_that_names_keras_is_forked_with_it(bed: CommandBed) -> None:
    bed.write(
        "train.py",
        "import sys\nready = 'keras' in sys.modules\nfrom tensorflow import keras\n"
        "print('keras', ready, keras.__version__)\n",
    )
    assert "worker:0 | keras True 3." in bed.done("up", "--ps", "0", "--workers", "1", "train.py")
