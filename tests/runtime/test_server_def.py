"""The hand-encoded ServerDef, byte by byte, and as TensorFlow reads it."""

from __future__ import annotations

import sys

import pytest
from fork_client import ForkServer

from psclust.runtime.server_def import Request, parse_cluster


def test_the_smallest_definition_byte_by_byte() -> None:
    task = b"\x08\x00" + b"\x12\x04a:12"
    job = b"\x0a\x02ps" + b"\x12\x08" + task
    cluster = b"\x0a\x0e" + job
    expected = (
        b"\x0a\x10"
        + cluster
        + b"\x12\x02ps"
        + b"\x18\x00"
        + b"\x22\x05"
        + b"\x82\x01\x02\x48\x01"
        + b"\x2a\x04grpc"
    )
    assert Request({"ps": {0: "a:12"}}, "ps", 0).encoded() == expected


def test_numbers_above_127_take_more_bytes() -> None:
    assert (
        Request({"ps": {300: "a:1"}}, "ps", 300, port=2301)
        .encoded()
        .endswith(b"\x2a\x04grpc" + b"\x30\xfd\x11")
    )
    assert b"\x18\xac\x02" in Request({"ps": {300: "a:1"}}, "ps", 300).encoded()


@pytest.mark.process
@pytest.mark.tensorflow
def test_tensorflow_reads_what_was_meant(tensorflow: ForkServer) -> None:
    addresses = {index: f"host-{index}:{20000 + index}" for index in range(150)}
    cluster = {"ps": {0: "p:1", 7: "q:2"}, "worker": addresses}
    encoded = Request(cluster, "worker", 140, port=2301, threads=200, devices=3).encoded()
    code = (
        "import tensorflow as tf\n"
        f"d = tf.train.ServerDef.FromString(bytes.fromhex('{encoded.hex()}'))\n"
        "c = d.default_session_config\n"
        "jobs = {job.name: dict(job.tasks) for job in d.cluster.job}\n"
        "print(jobs['ps'] == {0: 'p:1', 7: 'q:2'}, jobs['worker'] == {i: f'host-{i}:{20000 + i}' "
        "for i in range(150)}, len(jobs))\n"
        "print(d.job_name, d.task_index, d.port, d.protocol, c.intra_op_parallelism_threads, "
        "c.inter_op_parallelism_threads)\n"
        "print(sorted(c.device_count.items()), c.experimental.disable_thread_spinning)"
    )
    expected = "True True 2\nworker 140 2301 grpc 200 200\n[('CPU', 3), ('GPU', 3)] True\n"
    assert tensorflow.run([sys.executable, "-c", code]) == (0, expected)


def test_a_cluster_is_lists_or_numbered_addresses() -> None:
    assert parse_cluster('{"ps": ["a:1", "b:2"], "worker": {"3": "c:4"}}') == {
        "ps": {0: "a:1", 1: "b:2"},
        "worker": {3: "c:4"},
    }


@pytest.mark.parametrize(
    "text", ["", "[]", "3", '{"ps": "a:1"}', '{"ps": [1]}', '{"ps": {"x": "a:1"}}']
)
def test_anything_else_is_no_cluster(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_cluster(text)
