"""The ways of training that `wire.py` measures, each as the command that a user types.

In a command, MODEL is the model, SHARD a size that depends on the link, RANK the process of
PyTorch. `hosts.yaml` names the hosts, 2 ps and 2 workers, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rivals import RIVAL

UP = "psclust up -f hosts.yaml"
_RIVAL_UP = f"{UP} {' '.join(RIVAL)}"
# As torchrun sets it.
_DDP = "OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0 python ddp.py MODEL"
_DDP_RANKS = "--master MASTER:29400 --world 2 --rank RANK"
_ONE_THREAD = "--env TF_NUM_INTRAOP_THREADS=1"
_DENSE = ("skewed", "small", "large")
_SHARDS = "--max-shard-bytes SHARD"
# (replication and update, the options of `up` for it)
_KINDS = {
    "between-graph async": "",
    "between-graph sync": " --sync",
    "in-graph sync": " --replication in-graph --sync",
}
HOOKS = {
    "no hook": " --set hook=none",
    "counting hook": "",
    "LoggingTensorHook": " --set hook=logging",
    "NanTensorHook": " --set hook=nan",
    "summary_steps=10": " --set hook=none --config summary_steps=10",
}


@dataclass(frozen=True)
class Way:
    """command: as typed. together: whether the steps it prints are those of all workers, each
    counted, and not of one worker. models: the only ones it can train; None: any. narrow: whether
    fewer bytes travel, so that larger shards are best."""

    command: str
    together: bool = False
    models: Sequence[str] | None = None
    narrow: bool = False

    @property
    def torch(self) -> bool:
        """Whether it needs PyTorch, and starts without psclust."""
        return not self.command.startswith(UP)

    def typed(self, gbit: float) -> str:
        """The command with the size of its shards."""
        return self.command.replace("SHARD", best_shard(gbit, narrow=self.narrow))


def best_shard(gbit: float, *, narrow: bool) -> str:
    """The size of dense shards that was best on the link (docs/performance-tried.md)."""
    if gbit > 1:
        return "8MB" if narrow else "2MB"
    return "1MB" if narrow else "256KB"


def _ours(kind: str, up: str = "", program: str = "", *, narrow: bool = False) -> Way:
    command = f"{UP}{_KINDS[kind]}{up and f' {up}'} ours:MODEL{program}"
    return Way(command, together=kind.endswith("async"), narrow=narrow)


def _main() -> dict[str, Way]:
    """The defaults of psclust, which are what a user gets without an option, and its rivals as
    their own documentation tells to start them."""
    half = " --config wire_dtype=bfloat16"
    return {
        "by hand, round robin": Way(f"{_RIVAL_UP} by_hand.py --model MODEL", together=True),
        "by hand, tuned": Way(f"{_RIVAL_UP} by_hand_tuned.py", together=True, models=("skewed",)),
        "by hand, tuned, bfloat16": Way(
            f"{_RIVAL_UP} by_hand_tuned.py --bfloat16", together=True, models=("skewed",)
        ),
        "ParameterServerStrategy": Way(
            f"{_RIVAL_UP} --replication coordinator coordinator.py MODEL --partitioner min-size",
            together=True,
        ),
        "PyTorch DDP": Way(f"{_DDP} {_DDP_RANKS}"),
        "PyTorch DDP, fp16": Way(f"{_DDP} --half {_DDP_RANKS}", models=_DENSE),
        **{kind: _ours(kind) for kind in _KINDS},
        **{
            f"{kind}, bfloat16": _ours(kind, program=half)
            for kind in ("between-graph async", "between-graph sync")
        },
    }


def _hooks() -> dict[str, Way]:
    """What programs have besides a model: each against the same program without a hook."""
    return {
        f"{kind}, {name}": _ours(kind, program=program)
        for kind in _KINDS
        for name, program in HOOKS.items()
    }


def _best() -> dict[str, Way]:
    """What a reader of all pages may get in addition, and rivals beyond their documentation."""
    sync, none = "between-graph sync", HOOKS["no hook"]
    tuned = f"{_SHARDS} {_ONE_THREAD}"
    half, quarter = (f" --config wire_dtype={dtype}" for dtype in ("bfloat16", "int8"))
    return {
        "by hand, tuned, one thread an op": Way(
            f"{_RIVAL_UP} {_ONE_THREAD} by_hand_tuned.py", together=True, models=("skewed",)
        ),
        "by hand, tuned, bfloat16, one thread an op": Way(
            f"{_RIVAL_UP} {_ONE_THREAD} by_hand_tuned.py --bfloat16",
            together=True,
            models=("skewed",),
        ),
        "ParameterServerStrategy, shards of 8 MB, one thread an op": Way(
            f"{_RIVAL_UP} {_ONE_THREAD} --replication coordinator "
            "coordinator.py MODEL --partitioner 8000000",
            together=True,
        ),
        f"{sync}, best shards": _ours(sync, _SHARDS),
        f"{sync}, one thread an op": _ours(sync, _ONE_THREAD),
        f"{sync}, no hook": _ours(sync, program=none),
        **{f"{kind}, all three": _ours(kind, tuned, none) for kind in _KINDS},
        **{
            f"{kind}, all three, bfloat16": _ours(kind, tuned, none + half, narrow=True)
            for kind in _KINDS
        },
        **{f"{kind}, int8": _ours(kind, program=quarter) for kind in _KINDS},
    }


def _encrypted() -> dict[str, Way]:
    """psclust's ways and a script, each in the open and under TLS."""
    script = Way(f"{_RIVAL_UP} --encrypt by_hand.py --model MODEL", together=True)
    ways = {"by hand, round robin": script, **{kind: _ours(kind, "--encrypt") for kind in _KINDS}}
    return {
        name: replace(way, command=way.command.replace("--encrypt", option))
        for kind, way in ways.items()
        for name, option in ((kind, "--no-encrypt"), (f"{kind}, encrypted", "--encrypt"))
    }


# By the table of docs/performance.md in which they are.
TABLES: Mapping[str, Mapping[str, Way]] = {
    "main": _main(),
    "hooks": _hooks(),
    "best": _best(),
    "encrypted": _encrypted(),
}


def ways_of(
    table: str, model: str, names: Sequence[str] | None = None, *, torch: bool
) -> dict[str, Way]:
    """The ways of a table that can train the model. names: only these. torch: whether PyTorch is
    there."""
    return {
        name: way
        for name, way in TABLES[table].items()
        if (names is None or name in names)
        and (way.models is None or model in way.models)
        and (torch or not way.torch)
    }
