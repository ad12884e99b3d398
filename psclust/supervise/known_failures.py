"""Failures that users meet, each with its remedy and the page that explains it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """`pattern`, a regular expression in which ^ is the beginning of a line, finds the failure in
    the last traceback, or in the last lines; `remedy` may name its groups."""

    pattern: str
    remedy: str
    page: str
    permanent: bool = True


_ESTIMATOR = "docs/tasks/estimator.md"
_SCRIPT = "docs/tasks/tf1-script.md"
_STRATEGY = "docs/tasks/parameter-server-strategy.md"
_SCRIPTS = "docs/scripts.md"
_ENDS = "docs/ends.md"

# In TensorFlow 2 tf.losses, tf.metrics and others are Keras's, whose classes begin with a capital
# letter.
_OF_KERAS = (
    r"keras\._tf_keras\.keras"
    r"(?=\.(?:losses|metrics|optimizers|initializers)' has no attribute '[a-z])"
)
_GONE = (
    rf"module '(?:tensorflow(?!\S*\.compat)(?:\._api\.v2)?|{_OF_KERAS})(?P<sub>(?:\.\w+)*)'"
    r" has no attribute '(?P<name>\w+)'"
)

# The first that is found counts.
KNOWN = (
    # Limits of a host.
    Known(
        r"From /job:(?P<job>\w+)/replica:0/task:(?P<task>\d+):\s+[^\n]*Too many open files",
        "{job}:{task} has no file descriptor left; raise the limit of its host (ulimit -Hn)",
        _ENDS,
        permanent=False,
    ),
    # Names that are gone.
    Known(
        r"module 'tensorflow\S*' has no attribute 'estimator'"
        r"|No module named 'tensorflow[._]estimator"
        r"|cannot import name 'estimator' from 'tensorflow",
        "TensorFlow 2.16 removed tf.estimator; "
        "its model functions run unchanged as a psclust.Program",
        _ESTIMATOR,
    ),
    Known(
        r"module 'keras\S*' has no attribute '(?:experimental|DatasetCreator)'"
        r"|cannot import name 'DatasetCreator'|No module named 'keras\.\S*experimental"
        r"|/keras/src/[\s\S]*ClusterCoordinator\.create_per_worker_dataset",
        "Keras 3 has no DatasetCreator, and its fit does not train under ParameterServerStrategy; "
        "set TF_USE_LEGACY_KERAS=1 for Keras 2 (package tf_keras), with which it does",
        _STRATEGY,
    ),
    Known(
        r"module 'tensorflow\S*' has no attribute 'contrib'"
        r"|No module named 'tensorflow\.contrib|cannot import name 'contrib' from",
        "tf.contrib ended with TensorFlow 1; tensorflow.compat.v1 has what was taken over from it, "
        "the package tf_slim its slim",
        _SCRIPT,
    ),
    Known(
        r"No module named 'tensorflow\.examples",
        "tensorflow.examples ended with TensorFlow 1; tf.keras.datasets.mnist.load_data() "
        "gives the digits as arrays",
        _SCRIPT,
    ),
    Known(
        r"`(?P<name>\w+)` is not available with Keras 3",
        "{name} is one of Keras 2; set TF_USE_LEGACY_KERAS=1 (package tf_keras), "
        "with which tf.compat.v1.layers and rnn_cell are back",
        _SCRIPT,
    ),
    Known(
        _GONE,
        "TensorFlow 2 has no tf{sub}.{name}; a script of TensorFlow 1 runs with `import "
        "tensorflow.compat.v1 as tf` and `tf.disable_v2_behavior()`",
        _SCRIPT,
    ),
    Known(
        r"^RuntimeError: .*(?:eager execution|The Session graph is empty)",
        "a script that builds a graph for a session needs `tf.disable_v2_behavior()` right after "
        "`import tensorflow.compat.v1 as tf`",
        _SCRIPT,
    ),
    # The role of a task.
    Known(
        r"Could not start gRPC server|Address already in use",
        "another process or task listens at that address; repeat addresses that are written in the "
        "script under `addresses:`, so that psclust checks them before it starts a task",
        _SCRIPTS,
        permanent=False,
    ),
    Known(
        r'Could not interpret "" as a host-port pair'
        r'|Could not parse port for local server from ""',
        "the script's ClusterSpec has a job with an empty address, as of a flag that no task gets; "
        "`--job NAME=1` adds a task of that job, and `psclust plan` shows what each task gets",
        _SCRIPTS,
    ),
    Known(
        r'Job "(?P<job>[^"]*)" was not defined in cluster|Task \d+ was not defined in job "',
        "the script starts a server for a task that its own ClusterSpec does not have; "
        "`psclust plan` shows the job name, the index and the addresses that each task gets",
        _SCRIPTS,
    ),
    Known(
        r"\bsys\.argv\b[\s\S]*^IndexError: list index out of range",
        "the script expects words after its name; write them there, and placeholders for the role, "
        "as in '{{job_name}}' '{{task_index}}'",
        _SCRIPTS,
    ),
    Known(
        r"<frozen os>[\s\S]*^KeyError: '(?P<name>(?!TF_CONFIG)\w+)'",
        "the variable {name} is not set; `--env {name}=VALUE` sets it in each task, "
        "and VALUE may be a placeholder such as {{job_name}}",
        _SCRIPTS,
    ),
    Known(
        r"^EOFError: EOF when reading a line",
        "a task has no terminal to read from; "
        "give the script that value as an argument or with --env",
        _SCRIPTS,
    ),
    # Devices and variables.
    Known(
        r"explicitly assigned to (?P<device>\S*(?i:GPU):\d+) but available devices are",
        "no task has the device {device}; name CPU:0 instead, or let TensorFlow choose: "
        "tf.ConfigProto(allow_soft_placement=True)",
        _SCRIPT,
    ),
    Known(
        r"explicitly assigned to (?P<device>/job:\S+) but available devices are",
        "the session reaches no device {device}; "
        "name a task of this cluster that no device_filters exclude",
        _SCRIPT,
    ),
    Known(
        r"Attempting to use uninitialized value"
        r"|This could mean that the variable (?:was uninitialized|has been deleted)",
        "a variable has no value; put variables on the ps with tf.train.replica_device_setter, "
        "and open the session with MonitoredTrainingSession(server.target, "
        "is_chief=task_index == 0), which initializes them or waits until they are",
        _SCRIPT,
        permanent=False,
    ),
    Known(
        r"Restoring from checkpoint failed",
        "the folder holds the checkpoint of another model; "
        "train in a new folder, or delete that one",
        _SCRIPT,
    ),
    Known(
        r"_temp/part-\d+\S*; No such file or directory",
        "either two tasks save into one folder, where only one may have is_chief=True, "
        "or the ps and the chief do not share that folder",
        _SCRIPT,
        permanent=False,
    ),
    Known(
        r"Run called even after should_stop requested",
        "a hook has ended the training within a round of several session.run; "
        "ask session.should_stop() before each of them",
        _SCRIPT,
        permanent=False,
    ),
    # Coordinators.
    Known(
        r"'ShardedVariable' object has no attribute",
        "Keras 3 cannot use variables that a variable_partitioner has partitioned; "
        "leave it out, or set TF_USE_LEGACY_KERAS=1 for Keras 2 (package tf_keras)",
        _STRATEGY,
    ),
    Known(
        r"cluster_coordinator\.py\"[\s\S]*End of sequence",
        "the data of a worker has ended; repeat the dataset and count the steps, "
        "or catch tf.errors.OutOfRangeError of schedule and join",
        _STRATEGY,
    ),
)
