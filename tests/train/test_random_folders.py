"""Model folders in any state: what is whole in them is found, or a sentence says what is wrong, and
no checkpoint is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

from beds.damage import DATA, damaged
from psclust.errors import PsclustError
from psclust.train.between_graph.ended_replicas import EndedReplicas
from psclust.train.checkpoints.checkpoint import Checkpoints
from psclust.train.checkpoints.checkpoint_folder import CheckpointFolder
from psclust.train.checkpoints.folder_writer import FolderLease, Writer
from psclust.train.offline.evaluator import training_ended

pytestmark = pytest.mark.tensorflow

NAMES = [
    "model.ckpt-0",
    "model.ckpt-10",
    "model.ckpt-9",
    "model.ckpt-*",
    "model.ckpt-abc",
    "final",
    "../model.ckpt-7",
    "/model.ckpt-8",
    "[a-z]-5",
    "..",
    "sub/model.ckpt-3",
]
STATE = (
    'model_checkpoint_path: "model.ckpt-10"\nall_model_checkpoint_paths: "model.ckpt-9"\n'
    'all_model_checkpoint_paths: "model.ckpt-10"\nall_model_checkpoint_timestamps: 5.0\n'
    "all_model_checkpoint_timestamps: 6.0\nlast_preserved_timestamp: 4.0\n"
)
NAME = st.sampled_from(NAMES)


@st.composite
def states(draw: st.DrawFn) -> bytes:
    lines = [f'model_checkpoint_path: "{draw(NAME)}"'] if draw(st.booleans()) else []
    lines += [f'all_model_checkpoint_paths: "{each}"' for each in draw(st.lists(NAME, max_size=4))]
    times = draw(st.lists(st.floats(), max_size=4))
    lines += [f"all_model_checkpoint_timestamps: {each!r}" for each in times]
    return "\n".join(lines).encode()


INDEX = st.none() | states() | damaged(STATE) | st.just(STATE.encode())
ENDS = (".index", ".data-00000-of-00001", ".data-00000-of-00002", ".tempstate7")
OTHERS = ("notes.txt", "model.ckpt-11", ".checkpoint.7", "model.ckpt-9.meta")
WRITTEN = [
    f"{name}{end}"
    for name in ("model.ckpt-0", "model.ckpt-9", "model.ckpt-10", "model.ckpt-abc")
    for end in ENDS
]
FILES = st.sets(st.sampled_from([*WRITTEN, *OTHERS]), max_size=8)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def _fill(folder: Path, index: bytes | None, files: set[str]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in files:
        (folder / name).write_bytes(name.encode())
    if index is not None:
        (folder / "checkpoint").write_bytes(index)


def _complete(files: set[str]) -> set[str]:
    return {
        name
        for name in ("model.ckpt-0", "model.ckpt-9", "model.ckpt-10")
        if {f"{name}.index", f"{name}.data-00000-of-00001"} <= files
    }


@given(INDEX, FILES)
@example(STATE.replace("model.ckpt-9", "9" * 5000 + "-9").encode(), set())
def test_a_folder_is_read_or_refused_and_keeps_what_is_whole(
    place: Path, index: bytes | None, files: set[str]
) -> None:
    path = place / "model"
    _fill(path, index, files)
    folder, whole = CheckpointFolder(path, keep=2), _complete(files)
    try:
        latest, listed = folder.latest(), folder.listed()
    except PsclustError as error:
        if not str(error).startswith(f"{path}/checkpoint does not name the last checkpoint: "):
            raise
        assert {file.name for file in path.iterdir()} == {*files, "checkpoint"}
        return
    assert latest is not None or index is None or not whole
    assert all(each.step >= 0 for each in listed)
    assert folder.shortage() is None
    folder.tidy()
    for end in (".index", ".data-00000-of-00001"):
        (path / f"model.ckpt-20{end}").touch()
    folder.add(folder.prefix(20))
    assert folder.latest() == str(path / "model.ckpt-20")
    assert folder.listed()[-1].name == "model.ckpt-20"
    left_over = {name for name in files if ".tempstate" in name or name.startswith(".")}
    for gone in files - left_over - {file.name for file in path.iterdir()}:
        assert any(gone.startswith(f"{each.name}.") for each in listed)


@pytest.mark.parametrize("content", ["", "model_checkpoint_path: 5", "\xff"])
def test_a_damaged_index_begins_no_training_anew(tmp_path: Path, content: str) -> None:
    _fill(tmp_path / "m", content.encode("latin-1"), {"model.ckpt-9.index"})
    (tmp_path / "m/model.ckpt-9.data-00000-of-00001").touch()
    with pytest.raises(PsclustError, match=r'write `model_checkpoint_path: "model.ckpt-9"`'):
        CheckpointFolder(tmp_path / "m").latest()


@dataclass
class Trained:
    """files: of the checkpoint of step 7, in which `v` is [1, 1]. spoil: gives `v` other values."""

    session: tf.compat.v1.Session
    checkpoints: Checkpoints
    value: tf.Tensor
    spoil: tf.Operation
    folder: Path
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def trained(place: Path) -> Iterator[Trained]:
    folder = place / "trained"
    with tf.Graph().as_default() as graph:
        one = tf.compat.v1.ones_initializer()
        v = tf.compat.v1.get_variable("v", (2,), initializer=one, use_resource=True)
        value, spoil = v.value(), v.assign([5.0, 5.0]).op
        checkpoints = Checkpoints([v], folder, "")
        with tf.compat.v1.Session(graph=graph) as session:
            session.run(v.initializer)
            checkpoints.save(session, 7)
            files = {file.name: file.read_bytes() for file in folder.glob("model.ckpt-7.*")}
            yield Trained(session, checkpoints, value, spoil, folder, files)


@given(st.integers(0, 1), st.data())
def test_a_checkpoint_is_restored_as_it_was_or_refused(
    trained: Trained, which: int, data: st.DataObject
) -> None:
    for name, content in trained.files.items():
        (trained.folder / name).write_bytes(content)
    name = sorted(trained.files)[which]
    whole = trained.files[name]
    at = data.draw(st.integers(0, len(whole)))
    bad = whole[:at] + data.draw(st.binary(max_size=3))
    if data.draw(st.booleans()):
        bad += whole[len(bad) :]
    (trained.folder / name).write_bytes(bad)
    trained.session.run(trained.spoil)
    prefix = str(trained.folder / "model.ckpt-7")
    try:
        trained.checkpoints.restore(trained.session, prefix)
    except PsclustError as error:
        if not str(error).startswith(prefix):
            raise
    else:
        assert list(trained.session.run(trained.value)) == [1.0, 1.0]


@given(st.binary(max_size=12) | DATA.map(lambda data: json.dumps(data).encode()))
def test_small_records_beside_checkpoints(place: Path, content: bytes) -> None:
    folder = place / "small"
    folder.mkdir(exist_ok=True)
    for path in ("writer.json", "ended.json", "training_done"):
        (folder / path).write_bytes(content)
    assert training_ended(folder, "run") is False
    ended = EndedReplicas(folder / "ended.json", "run")
    ended.become([3])
    assert EndedReplicas(folder / "ended.json", "run").numbers == {3}
    lease = FolderLease(folder, Writer.here("run", "worker:0"))
    lease.check()
    lease.release()
