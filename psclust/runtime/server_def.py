"""What is asked of a server, and TensorFlow's `ServerDef` message of it, encoded without protobuf
or TensorFlow's Python package. Field numbers are from tensorflow_server.proto, cluster.proto and
config.proto; a protobuf's field numbers never change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from psclust.spec.whole_number import whole_number

_LAST_INDEX = (1 << 31) - 1
Cluster = Mapping[str, Mapping[int, str]]
"""Job name to task index to address; indices may have gaps, as in `tf.train.ClusterSpec`."""


def parse_cluster(text: str) -> Cluster:
    """A cluster spec in JSON: per job a list of addresses, or an object of index to address. Raises
    ValueError."""
    try:
        jobs = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(jobs, dict):
        raise ValueError("expected an object of job names")  # noqa: TRY004 - as json.loads does
    return {job: _addresses(job, tasks) for job, tasks in jobs.items()}


def _addresses(job: str, tasks: object) -> Mapping[int, str]:
    if isinstance(tasks, list):
        numbered = dict(enumerate(tasks))
    elif isinstance(tasks, dict):
        numbered = {int(index): address for index, address in tasks.items()}
    else:
        raise ValueError(f"{job}: expected a list of addresses")  # noqa: TRY004 - as json.loads does
    if not all(isinstance(address, str) for address in numbered.values()):
        raise ValueError(f"{job}: an address must be text")
    if not all(0 <= index <= _LAST_INDEX for index in numbered):
        raise ValueError(f"{job}: an index must be from 0 to {_LAST_INDEX}")
    return numbered


class Request(NamedTuple):
    """Which task of which cluster to serve, and how. port: to listen on, if not the one that peers
    dial. threads: size of both thread pools (inter-op and intra-op); None: one per core. devices:
    number of CPU devices, and of GPUs at most; None: one CPU and all GPUs."""

    cluster: Cluster
    job: str
    task: int
    port: int | None = None
    threads: int | None = None
    op_libraries: tuple[str, ...] = ()
    devices: int | None = None

    @property
    def name(self) -> str:
        return f"{self.job}:{self.task}"

    @property
    def listens_on(self) -> int | None:
        """The port to listen on; None if the address has none."""
        port = self.cluster[self.job][self.task].rpartition(":")[2]
        return self.port if self.port is not None else whole_number(port)

    def encoded(self) -> bytes:
        """The serialized ServerDef.

        Idle threads of the pools sleep at once: by default they look for work for a while first,
        which takes CPU from the host's other tasks and from the threads that serve the wire.
        """
        jobs = b"".join(_field(1, _job(name, tasks)) for name, tasks in self.cluster.items())
        config = b""
        if self.devices is not None:
            for kind in (b"CPU", b"GPU"):
                config += _field(1, _field(1, kind) + _number(2, self.devices))
        if self.threads is not None:
            config += _number(2, self.threads) + _number(5, self.threads)
        config += _field(16, _number(9, 1))  # experimental.disable_thread_spinning
        encoded = _field(1, jobs) + _field(2, self.job.encode()) + _number(3, self.task)
        encoded += _field(4, config) + _field(5, b"grpc")
        return encoded if self.port is None else encoded + _number(6, self.port)


def _job(name: str, tasks: Mapping[int, str]) -> bytes:
    entries = (
        _field(2, _number(1, index) + _field(2, address.encode()))
        for index, address in tasks.items()
    )
    return _field(1, name.encode()) + b"".join(entries)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _field(field: int, payload: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
