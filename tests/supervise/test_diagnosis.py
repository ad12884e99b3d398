"""What the last lines of a failed task show."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import operator
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from psclust.supervise.diagnosis import diagnose
from psclust.supervise.known_failures import KNOWN


def lines_of(failing: Callable[[], object]) -> list[str]:
    """What a program that calls `failing` prints at its end."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each calls for another
        failing()
    return ["step 1", *"".join(traceback.format_exception(caught.value)).splitlines()]


def raised(error: str, *, at: str = "train()", frame: str = "/home/u/train.py") -> list[str]:
    return [
        "Traceback (most recent call last):",
        f'  File "{frame}", line 7, in <module>',
        f"    {at}",
        error,
    ]


MISSING_FLAG = [
    "Usage: train.py [OPTIONS]",
    "Try 'train.py --help' for help.",
    "",
    "Error: No such option '--job_name'.",
]
ABSL = "Pass --helpshort or --helpfull to see help on flags."
OF_ROLE = {
    "an unknown flag": [
        "usage: train.py [-h]",
        "train.py: error: unrecognized arguments: --job_name=ps",
    ],
    "a flag that is missing": [
        "usage: train.py [-h] --task TASK",
        "train.py: error: the following arguments are required: --task",
    ],
    "a value of a flag": [
        "usage: train.py [-h]",
        "train.py: error: argument --task_index: invalid int value: ''",
    ],
    "click": MISSING_FLAG,
    "absl": [
        (
            "FATAL Flags parsing error: flag --job_name=None: "
            "Flag --job_name must have a value other than None."
        ),
        ABSL,
    ],
    "absl, a flag it does not define": [
        "FATAL Flags parsing error: Unknown command line flag 'job_name'",
        ABSL,
    ],
    "absl, read before it is defined": raised(
        "AttributeError: job_name", frame="/lib/site-packages/absl/flags/_flagvalues.py"
    ),
    "no job name": raised(
        "tensorflow.python.framework.errors_impl.InternalError: Job",
        frame="/lib/tensorflow/python/training/server_lib.py",
    ),
    "no such job": raised(
        "ValueError: No such job in cluster: 'ps'",
        at='tf.train.ClusterSpec({}).task_address("ps", 0)',
    ),
    "no cluster": raised(
        "ValueError: "
        "Cluster spec must be non-empty in `tf.distribute.cluster_resolver.ClusterResolver`."
    ),
    "an address that is taken": raised(
        "tensorflow.python.framework.errors_impl.UnknownError: Could not start gRPC server"
    ),
    "no flag, so None": raised(
        "AttributeError: 'NoneType' object has no attribute 'split'",
        at='spec = args.ps_hosts.split(",")',
    ),
    "TF_CONFIG without the task": raised("KeyError: 'task'", at='config["task"]'),
    "the script's own words": ["loading", "--job_name must be ps or worker"],
}


@pytest.mark.parametrize("name", OF_ROLE)
def test_a_failure_that_speaks_of_flags_or_addresses_is_about_the_role(name: str) -> None:
    assert diagnose(OF_ROLE[name]).of_role


@pytest.mark.parametrize("text", [None, "", '{"cluster": '])
def test_a_failure_to_read_tf_config_is_about_the_role(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    assert diagnose(lines_of(lambda: json.loads(os.environ["TF_CONFIG"]))).of_role


def test_an_error_while_another_is_handled_is_about_the_role_if_the_first_is() -> None:
    chained = [
        *raised("KeyError: 'TF_CONFIG'"),
        "",
        "During handling of the above exception, another exception occurred:",
        "",
    ]
    assert diagnose([*chained, *raised("RuntimeError: no cluster")]).of_role
    assert not diagnose(
        [*raised("KeyError: 'TF_CONFIG'"), "tried again", *raised("RuntimeError: no data")]
    ).of_role


def test_argparse_says_what_is_expected_here(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", type=int, required=True)
    for arguments in (["--job_name=ps", "--task=1"], [], ["--task=ps"], ["--task"]):
        with pytest.raises(SystemExit):
            parser.parse_args(arguments)
        assert diagnose(capsys.readouterr().err.splitlines()).of_role


OTHER = {
    "an attribute that is gone": raised(
        "AttributeError: module 'tensorflow' has no attribute 'estimator'",
        at="tf.estimator.RunConfig()",
    ),
    "the end of the data": [
        *raised(
            "tensorflow.python.framework.errors_impl.OutOfRangeError: Graph execution error:",
            at="coordinator.join()",
            frame="/lib/tensorflow/python/distribute/coordinator/cluster_coordinator.py",
        ),
        "End of sequence",
        (
            "Additional GRPC error information from remote target /job:worker/replica:0/task:1 "
            "while calling Enqueue:"
        ),
    ],
    "a device that is not there": raised(
        "tensorflow.python.framework.errors_impl.InvalidArgumentError: Cannot assign a device for "
        "operation w: {{node w}} was explicitly assigned to /job:worker/task:0/device:GPU:0",
        at="with tf.train.MonitoredTrainingSession(server.target, "
        "is_chief=args.task_index == 0) as s:",
    ),
    "nothing": [],
    "a line of its own": ["training as worker 0"],
    "arguments it printed": ["Namespace(job_name='worker', task_index=None) not used"],
    "a cluster of its own": ["the cluster of points is not dense"],
    "its own mistake": raised("TypeError: step() missing 1 required positional argument: 'x'"),
}


@pytest.mark.parametrize("name", OTHER)
def test_any_other_failure_is_not(name: str) -> None:
    assert not diagnose(OTHER[name]).of_role


KNOWN_FAILURES = {
    "tf.estimator": "docs/tasks/estimator.md",
    "tf.compat.v1.estimator": "docs/tasks/estimator.md",
    "tf.contrib": "docs/tasks/tf1-script.md",
    "tf.Session": "docs/tasks/tf1-script.md",
    "tf.train.AdamOptimizer": "docs/tasks/tf1-script.md",
    "tf.metrics.accuracy": "docs/tasks/tf1-script.md",
    "tf.keras.utils.experimental": "docs/tasks/parameter-server-strategy.md",
    "tf.keras.Sequentail": None,
    "tf.compat.v1.Sesion": None,
    "tf.metrics.Accurazy": None,
}


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", KNOWN_FAILURES)
def test_a_name_that_is_gone_has_the_remedy_of_its_page(name: str) -> None:
    import tensorflow as tf

    with pytest.raises(AttributeError) as caught:
        operator.attrgetter(name.removeprefix("tf."))(tf)
    remedy, page = diagnose(raised(f"AttributeError: {caught.value}")).remedy, KNOWN_FAILURES[name]
    assert (remedy is None) if page is None else (remedy or "").endswith(f" ({page})")


def run_on(device: str) -> Callable[[Any], None]:
    def run(tf: Any) -> None:
        with tf.device(device):
            tf.Session().run(tf.random.normal([2]))

    return run


def end_too_early(tf: Any) -> None:
    step = tf.train.get_or_create_global_step()
    more = step.assign_add(1)
    with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(1)]) as session:
        session.run(more)
        session.run(more)


def restore_another_model(tf: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, tf.Session() as session:
        first = tf.get_variable("first", [2])
        session.run(first.initializer)
        saved = tf.train.Saver().save(session, f"{folder}/model.ckpt")
        tf.get_variable("second", [2])
        tf.train.Saver().restore(session, saved)


def serve(**spec: Any) -> Callable[[Any], None]:
    return lambda tf: tf.train.Server(spec, job_name="worker", task_index=0)


REAL_FAILURES: dict[str, tuple[Callable[[Any], object], str]] = {
    "a device": (run_on("/gpu:3"), "no task has the device /device:GPU:3; name CPU:0"),
    "a task": (run_on("/job:worker/task:3"), "the session reaches no device /job:worker/task:3; "),
    "a variable": (
        lambda tf: tf.Session().run(tf.get_variable("v", [2], use_resource=False)),
        "a variable has no value; ",
    ),
    "a resource": (
        lambda tf: tf.Session().run(tf.get_variable("v", [2], use_resource=True)),
        "a variable has no value; ",
    ),
    "a checkpoint": (restore_another_model, "the checkpoint of another model"),
    "a hook": (end_too_early, "ask session.should_stop() before each of them"),
    "an empty address": (serve(worker=["localhost:0"], chief=[""]), "a job with an empty address"),
    "another job": (serve(chief=["localhost:0"]), "a task that its own ClusterSpec does not have"),
    "layers": (
        lambda tf: tf.layers.dense(tf.zeros([2, 2]), 3),
        "dense is one of Keras 2; set TF_USE_LEGACY_KERAS=1",
    ),
    "examples": (
        lambda tf: importlib.import_module("tensorflow.examples.tutorials"),
        "tf.keras.datasets.mnist.load_data()",
    ),
    "no argument": (lambda tf: sys.argv[99], "as in '{job_name}' '{task_index}'"),
    "no variable": (lambda tf: os.environ["PS_HOSTS"], "`--env PS_HOSTS=VALUE` sets it"),
    "no terminal": (lambda tf: input(), "no terminal to read from"),
}


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", REAL_FAILURES)
def test_a_failure_of_a_newcomers_script_has_a_remedy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    monkeypatch.setattr(sys, "stdin", io.StringIO())
    fail, part = REAL_FAILURES[name]
    with tf.Graph().as_default():
        lines = lines_of(lambda: fail(tf.compat.v1))
    assert part in (diagnose(lines).remedy or "")


@pytest.mark.tensorflow
@pytest.mark.parametrize("fail", ["placeholder", "optimizer", "session"])
def test_a_script_that_builds_its_graph_eagerly_has_a_remedy(fail: str) -> None:
    import tensorflow as tf

    eagerly: dict[str, Callable[[Any], object]] = {
        "placeholder": lambda v1: v1.placeholder(tf.float32),
        "optimizer": lambda v1: v1.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0)),
        "session": lambda v1: v1.Session(graph=tf.Graph()).run(None),
    }
    assert "`tf.disable_v2_behavior()` right after" in (
        diagnose(lines_of(lambda: eagerly[fail](tf.compat.v1))).remedy or ""
    )


@pytest.mark.tensorflow
def test_an_address_that_is_taken_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    with (
        socket.create_server(("0.0.0.0", 0)) as taken,
        pytest.raises(tf.errors.UnknownError) as caught,
    ):
        tf.distribute.Server(
            {"worker": [f"localhost:{taken.getsockname()[1]}"]}, job_name="worker", task_index=0
        )
    assert "repeat addresses that are written in the script under `addresses:`" in (
        diagnose([f"UnknownError: {caught.value}"]).remedy or ""
    )


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (
            raised("AttributeError: module 'tensorflow._api.v2.train' has no attribute 'Server'"),
            "no tf.train.Server; ",
        ),
        (
            raised(
                "AttributeError: "
                "module 'tensorflow' has no attribute 'placeholder'. Did you mean: 'x'?"
            ),
            "no tf.placeholder; ",
        ),
        (
            raised("ModuleNotFoundError: No module named 'tensorflow.contrib'"),
            "the package tf_slim",
        ),
        (
            raised("ModuleNotFoundError: No module named 'tensorflow_estimator'"),
            "as a psclust.Program",
        ),
        (
            raised(
                "ValueError: To use this dataset, "
                "you need to pass this dataset to ClusterCoordinator.create_per_worker_dataset.",
                frame="/lib/site-packages/keras/src/utils/traceback_utils.py",
            ),
            "TF_USE_LEGACY_KERAS=1",
        ),
        (
            raised("AttributeError: 'ShardedVariable' object has no attribute 'handle'"),
            "variable_partitioner",
        ),
        (OTHER["the end of the data"], "catch tf.errors.OutOfRangeError"),
        (
            raised(
                "tensorflow.python.framework.errors_impl.NotFoundError: "
                "m/model.ckpt-9_temp/part-00000-of-00001; No such file or directory"
            ),
            "two tasks save into one folder",
        ),
        (
            [
                *raised("tensorflow.errors.UnavailableError: Graph execution error:"),
                "",
                "From /job:ps/replica:0/task:1:",
                "failed to connect to all addresses; last error: INTERNAL: ipv4:127.0.0.1:4072: "
                "socket: Too many open files",
            ],
            "ps:1 has no file descriptor left",
        ),
    ],
)
def test_a_known_failure_has_its_remedy(lines: list[str], part: str) -> None:
    assert part in (diagnose(lines).remedy or "")


def test_what_a_program_printed_before_has_none() -> None:
    earlier = ["tried: module 'tensorflow' has no attribute 'Session'", *["step"] * 5]
    assert diagnose(earlier).remedy is None
    assert diagnose([*earlier, *raised("ValueError: no")]).remedy is None
    dataset = (
        "ValueError: To use this dataset, "
        "you need to pass this dataset to ClusterCoordinator.create_per_worker_dataset."
    )
    assert diagnose(raised(dataset)).remedy is None


def test_each_page_is_there() -> None:
    for known in KNOWN:
        assert (Path(__file__).parents[2] / known.page).is_file()
