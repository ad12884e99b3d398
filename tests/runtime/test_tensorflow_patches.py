"""What is changed in TensorFlow before a script runs: the 30 s wait of MonitoredTrainingSession and
Supervisor, and AutoGraph's files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fork_client import ForkServer

pytestmark = [pytest.mark.process, pytest.mark.tensorflow]

SHOW = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
tf.get_variable("w", [])
kept = {}
for name, arguments in (("default", {}), ("own", {"recovery_wait_secs": 7})):
    kept["session manager", name] = tf.train.SessionManager(**arguments)._recovery_wait_secs
    kept["supervisor", name] = tf.train.Supervisor(logdir="", **arguments)._recovery_wait_secs
print(kept)
"""


@pytest.mark.parametrize(("wait", "default"), [(None, 30), (1.0, 1.0), (0.25, 0.25)])
def test_only_the_default_is_lowered(
    tensorflow: ForkServer, wait: float | None, default: float
) -> None:
    code, output = tensorflow.run([sys.executable, "-c", SHOW], wait=wait)
    assert (code, eval(output.splitlines()[-1])) == (0, kept(default))


def kept(default: float) -> dict[tuple[str, str], float]:
    """What SHOW prints where `default` is the wait."""
    kinds, waits = ("session manager", "supervisor"), {"default": default, "own": 7}
    return {(kind, name): wait for kind in kinds for name, wait in waits.items()}


CONVERTED = """
import inspect, os, tempfile
import tensorflow as tf

def doubled(x):
    if x > 0:
        x = 2 * x
    return x

print("values:", [int(x) for x in tf.data.Dataset.range(3).map(doubled)])
converted = tf.autograph.to_graph(doubled)
print("from:", os.path.basename(inspect.getfile(converted)))
print("source:", inspect.getsource(converted))
print("left:", os.listdir(tempfile.gettempdir()))
"""


@pytest.mark.long
@pytest.mark.parametrize("started", ["tensorflow", "plain"])
def test_a_converted_function_leaves_no_file_and_shows_its_lines(
    started: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: ForkServer = request.getfixturevalue(started)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "x.py").write_text(CONVERTED)
    env = {"TMPDIR": str(tmp_path / "tmp"), "TF_CPP_MIN_LOG_LEVEL": "2"}
    code, output = server.run([sys.executable, "x.py"], cwd=tmp_path, env=env)
    assert code == 0, output
    assert "values: [0, 2, 4]\nfrom: __autograph_generated_file" in output
    assert "def tf__doubled(x):" in output
    assert output.endswith("left: []\n")


FAILING = """
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()

def model():
    return tf.debugging.check_numerics(tf.constant(float("nan")), "no number", name="bad")

bad = model()
tf.Session().run(bad)
"""


@pytest.mark.parametrize("started", ["tensorflow", pytest.param("plain", marks=pytest.mark.long)])
def test_an_error_shows_where_the_program_made_the_op_without_psclusts_frames(
    started: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: ForkServer = request.getfixturevalue(started)
    (tmp_path / "x.py").write_text(FAILING)
    code, output = server.run(
        [sys.executable, "x.py"], cwd=tmp_path, env={"TF_CPP_MIN_LOG_LEVEL": "2"}
    )
    assert code == 1
    assert 'x.py", line 6, in model' in output.partition("defined at")[2], output
    assert "psclust" not in output.replace(str(tmp_path), "")
