"""Variables that move from ps to ps while the servers live on, as a run gets other ps or another
placement."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from handed_out import counted
from ways import Start, ways

from psclust.placement.home import VARIABLES, VariablesHome
from psclust.replication.private_tensorflow import set_slice
from psclust.spec.cluster import ClusterSpec, Task
from psclust.testing.wait import wait_until
from psclust.train import moved_variables
from psclust.train.moved_variables import (
    CannotMoveError,
    MovedVariables,
    Part,
    Piece,
    blocks_of,
    parts_of,
)
from psclust.train.session import open_session, session_config
from psclust.train.task_context import TaskContext

TABLE = np.arange(1200, dtype=np.float32).reshape(60, 20)


def piece(begin: int, size: int, ps: int = 0, axis: int = 0) -> Piece:
    """Of TABLE."""
    first, shape = [0, 0], list(TABLE.shape)
    first[axis], shape[axis] = begin, size
    return Piece(f"part_{ps}", ps, "float32", "table", tuple(first), tuple(shape))


def test_a_piece_is_made_of_all_that_it_overlaps() -> None:
    old = [piece(0, 30), piece(30, 30, 1)]
    assert parts_of(piece(20, 20), old) == [
        Part(old[0], (20, 0), (10, 20)),
        Part(old[1], (30, 0), (10, 20)),
    ]
    assert parts_of(piece(0, 60), old) == [Part(each, each.begin, each.shape) for each in old]
    assert parts_of(old[1], [piece(0, 60)]) == [Part(piece(0, 60), (30, 0), (30, 20))]
    # Cut along another axis.
    assert [part.shape for part in parts_of(piece(5, 10, axis=1), old)] == [(30, 10), (30, 10)]
    scalar = Piece("step", 0, "int64", "step", (), ())
    assert parts_of(scalar, [scalar]) == [Part(scalar, (), ())]


@pytest.mark.parametrize("old", [[], [piece(0, 30)], [piece(30, 20), piece(0, 30)]])
def test_what_is_not_all_there_cannot_move(old: Sequence[Piece]) -> None:
    with pytest.raises(CannotMoveError, match="part_0 is not all there"):
        parts_of(piece(20, 40), old)


def test_a_large_part_is_sent_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_variables, "_BLOCK", 1000)
    (part,) = parts_of(piece(10, 40), [piece(0, 60)])
    blocks = list(blocks_of(part))
    assert [block.begin for block in blocks] == [(10, 0), (20, 0), (30, 0), (40, 0)]
    assert {block.shape for block in blocks} == {(10, 20)}
    assert sum(block.size for block in blocks) == part.size


def _variables(values: Mapping[str, Any], ps: int, axis: int) -> list[Any]:
    """One on each ps in turn, but for `table`, of which each ps has a part."""
    made = []
    for number, (name, value) in enumerate(values.items()):
        pieces = np.array_split(value, ps, axis) if name == "table" else [value]
        begin = [0, 0]
        for index, part in enumerate(pieces):
            own = f"{name}/part_{index}" if len(pieces) > 1 else name
            where = index if len(pieces) > 1 else number % ps
            with tf.device(f"/job:ps/task:{where}"):
                variable = tf.compat.v1.get_variable(own, initializer=part, use_resource=True)
            if len(pieces) > 1:
                set_slice(variable, name, value.shape, list(begin), part.shape)
                begin[axis] += part.shape[axis]
            made.append(variable)
    return made


@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.parametrize("block", [1 << 25, 500])
def test_values_stay_as_they_are_on_more_and_on_fewer_ps(
    free_cluster: Callable[..., ClusterSpec],
    alone_servers: Callable[[ClusterSpec], None],
    monkeypatch: pytest.MonkeyPatch,
    block: int,
) -> None:
    monkeypatch.setattr(moved_variables, "_BLOCK", block)
    monkeypatch.setattr(moved_variables, "_AT_ONCE", 2 * block)
    # The server whose sessions name it worker:0 must have booted with another name.
    whole = free_cluster(ps=4, other=1)
    alone_servers(whole)
    known = {"ps": whole.as_dict()["ps"], "worker": whole.as_dict()["other"]}
    context = TaskContext(Task("worker", 0), elastic=True)
    target = f"grpc://{known['worker'][0]}"
    values = {
        "step": np.int64(12),
        "table": TABLE,
        "half": np.full([7], 0.5, np.float16),
        "names": np.array(["a", "b"], dtype=object),
    }
    others = {**{name: np.zeros_like(value) for name, value in values.items()}, "names": ["", ""]}
    home = VariablesHome()
    for turn, (addresses, axis) in enumerate(
        [(known["ps"][:2], 0), (known["ps"], 0), (known["ps"][1:2], 0), (known["ps"][2:], 1)]
    ):
        now = replace(context, cluster=ClusterSpec({**known, "ps": tuple(addresses)}), home=home)
        graph = tf.Graph()
        with graph.as_default(), graph.container(home.container):
            made = _variables(values if turn == 0 else others, len(addresses), axis)
            moved = MovedVariables(now, target, made)
            reads = {variable.op.name: variable.read_value() for variable in made}
        with open_session(target, graph, session_config(now)) as session:
            if turn == 0:
                session.run([variable.initializer for variable in made])
            assert moved.fetch() is (turn > 0)
            assert not moved.fetch()
            session.run(moved.described)
            found = session.run(reads)
        parts = [each for name, each in found.items() if name.startswith("table")]
        assert np.array_equal(np.concatenate(parts, axis), TABLE)
        assert found["step"] == 12
        assert found["half"].tolist() == [0.5] * 7
        assert found["names"].tolist() == [b"a", b"b"]
        home = VariablesHome(f"placement-{turn + 2}", home.container, tuple(addresses))


@pytest.mark.process
@pytest.mark.tensorflow
def test_a_placement_that_has_begun_fetches_nothing_from_the_one_before(
    free_cluster: Callable[..., ClusterSpec], alone_servers: Callable[[ClusterSpec], None]
) -> None:
    whole = free_cluster(ps=1, other=1)
    alone_servers(whole)
    known = {"ps": whole.as_dict()["ps"], "worker": whole.as_dict()["other"]}
    target = f"grpc://{known['worker'][0]}"
    before = VariablesHome()
    after = VariablesHome("placement-2", "", tuple(known["ps"]))
    for home, value in ((before, 1), (after, 2)):
        context = TaskContext(Task("worker", 0), ClusterSpec(known), elastic=True, home=home)
        graph = tf.Graph()
        with graph.as_default(), graph.container(home.container):
            made = _variables({"step": np.int64(value)}, 1, 0)
            moved = MovedVariables(context, target, made)
            read = made[0].read_value()
        with open_session(target, graph, session_config(context)) as session:
            session.run(made[0].initializer)
            session.run(moved.described)
            assert not moved.fetch()
            assert session.run(read) == value


# ---- a training

CUT = json.dumps({"max_shard_bytes": 2000})


def _training(processes: Start, folder: Path, replication: str, sync: bool) -> Any:
    return processes(
        replication,
        sync,
        "handed_out:program",
        environment={"PSCLUST_INPUT": "handed_out", "PSCLUST_PLACEMENT": CUT},
        log_seconds=0.2,
        save_seconds=1.0,
        examples=2000,
        pause=0.1,
        hurry=folder / "hurry",
    )


def _leave(training: Any) -> str:
    """All clients; returns the first."""
    first = next(iter(training.clients))
    for client in training.clients:
        training.signal(client, signal.SIGUSR2)
    assert training.end() == dict.fromkeys(training.clients, 0)
    training.clients.clear()
    return str(first)


def _place_anew(training: Any, ps: Sequence[str], number: int = 2) -> None:
    """With these ps from now on; the others stay."""
    known = training.cluster.as_dict()
    before = "" if number == 2 else f"placement-{number - 1}"
    home = VariablesHome(f"placement-{number}", before, tuple(known["ps"]))
    training.cluster = ClusterSpec({**known, "ps": tuple(ps)})
    training.environment = {**training.environment, VARIABLES: json.dumps(asdict(home))}
    training.start_all()


def _counts(training: Any) -> set[int]:
    (training.folder / "hurry").touch()
    return counted(training.end_well().values)


@pytest.mark.process
@pytest.mark.tensorflow
@ways(("between-graph", False))
def test_a_training_goes_on_where_it_was_on_more_and_on_fewer_ps(
    processes: Start,
    tmp_path: Path,
    free_cluster: Callable[..., ClusterSpec],
    replication: str,
    sync: bool,
) -> None:
    training = _training(processes, tmp_path, replication, sync)
    ps = training.cluster.as_dict()["ps"]
    more = (*ps, *free_cluster(ps=2).as_dict()["ps"])
    training.reach(next(iter(training.clients)), 15)
    for number, addresses in ((2, more), (3, more[:1])):
        first = _leave(training)
        _place_anew(training, addresses, number)
        step = training.step(first)
        training.reach(first, step + 5)
        assert "the variables have moved; the training goes on at step" in training.log(first)
        assert "resumed" not in training.log(first)
    assert _counts(training) == {1}


@pytest.mark.long
@pytest.mark.process
@pytest.mark.tensorflow
@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_ps_that_is_lost_takes_the_training_back_to_the_checkpoint(
    processes: Start, tmp_path: Path, free_cluster: Callable[..., ClusterSpec], lost: str
) -> None:
    """Never to values of the placement before."""
    training = _training(processes, tmp_path, "between-graph", False)
    ps = training.cluster.as_dict()["ps"]
    training.reach("worker:0", 30)
    _leave(training)
    if lost == "before":
        training.kill("ps:1")
        training.servers.pop("ps:1")
        _place_anew(training, ps[:1])
    else:
        _place_anew(training, (*ps, *free_cluster(ps=1).as_dict()["ps"]))
        training.reach("worker:0", 60)
        training.replace("ps:2")
        training.reach("worker:0", 80)
    training.reach("worker:0", 1)
    assert "resumed at step" in training.log("worker:0")
    assert _counts(training) == {1}


@pytest.mark.long
@pytest.mark.process
@pytest.mark.tensorflow
def test_a_chief_that_dies_as_the_variables_move_begins_again(
    processes: Start, tmp_path: Path, free_cluster: Callable[..., ClusterSpec]
) -> None:
    training = _training(processes, tmp_path, "between-graph", False)
    ps = training.cluster.as_dict()["ps"]
    training.reach("worker:0", 15)
    _leave(training)
    _place_anew(training, (*ps, *free_cluster(ps=1).as_dict()["ps"]))
    wait_until(lambda: _is_there(ps[0], "placement-2"), what="a part of a variable")
    training.replace("worker:0")
    training.reach("worker:0", 20)
    assert _counts(training) == {1}


def _is_there(address: str, container: str) -> bool:
    """Whether the ps has the first part of `counts`."""
    graph = tf.Graph()
    with graph.as_default():
        handle = tf.raw_ops.VarHandleOp(
            dtype=tf.float32, shape=None, shared_name="counts/part_0", container=container
        )
        there = tf.raw_ops.VarIsInitializedOp(resource=handle)
    with tf.compat.v1.Session(f"grpc://{address}", graph=graph) as session:
        return bool(session.run(there))
