"""What is drawn for one run: a pure function of the seed and the case's number."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from psclust.testing.wait import PATIENCE_S

LOCAL, HOSTS, SLURM = "local", "hosts", "slurm"
PLACES = (LOCAL, LOCAL, HOSTS, SLURM)  # a run on one machine is the cheapest
NAMES = {LOCAL: ("localhost",), HOSTS: ("h1", "h2", "h3"), SLURM: ("n1", "n2", "n3")}
WAYS = tuple(
    (replication, update)
    for replication in ("between-graph", "in-graph")
    for update in ("sync", "async")
)
SAVE_STEPS = 50
BATCHES = 600  # of each worker

# name -> the settings it adds to `--config`, the keys it adds to the cluster file.
FEATURES: Mapping[str, tuple[tuple[str, ...], Mapping[str, object]]] = {
    "plain": ((), {}),
    "evaluator": ((), {"evaluator": 1}),
    "backup workers": ((), {"worker": 3, "backup_workers": 1}),
    "accumulate": (("accumulate=2",), {}),
    "shards": ((), {"placement": {"max_shard_bytes": "300KB"}}),
    "streamed": ((), {"placement": {"max_shard_bytes": "128KB"}}),
    "int8": (("wire_dtype=int8",), {}),
    "handed out": ((), {"program": "counted:handed", "input": "handed_out"}),
}
_SYNC_BETWEEN = ("backup workers", "streamed")
MOMENTS = ("start", "training", "checkpoint", "end")

# kind -> its weight, and what it hits, each with a weight. task: any; link: of a host.
_TASKS, _PROCESSES = {"task": 6}, {"fork server": 1, "guard": 1, "supervisor": 1, "up": 1}
_AGENTS = {"agent": 2, "agent and guard": 1, "log-in": 1, "forwarder": 2, "slurmd": 1}
_KINDS: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "KILL": (8, {**_TASKS, **_PROCESSES, **_AGENTS}),
    "STOP": (4, {**_TASKS, **_PROCESSES, "agent": 2, "forwarder": 2, "slurmd": 1}),
    "TERM": (2, {"task": 2, "supervisor": 1, "up": 1, "agent": 1, "forwarder": 1}),
    "DISK": (2, {"state": 1, "model": 1, "home": 1}),
    "FILES": (1, {"task": 2, **_PROCESSES, "agent": 1, "forwarder": 1}),
    "MEMORY": (1, {"task": 2, **_PROCESSES, "agent": 1, "forwarder": 1}),
    "CUT": (4, {"link": 1}),
    "SLOW": (1, {"link": 1}),
    "CLOCK": (2, {"clock": 2, "host clock": 1}),
}
# Where they exist; all others do everywhere.
_EXISTS: Mapping[str, Callable[[Case], bool]] = {
    **dict.fromkeys(("agent", "agent and guard", "link", "host clock"), lambda c: c.remote),
    # On hosts, a log-in ends when the agent has begun.
    "log-in": lambda case: case.place == SLURM or (case.place == HOSTS and _begins(case)),
    "forwarder": lambda case: case.encrypt,
    "home": lambda case: case.place == HOSTS,
    "slurmd": lambda case: case.place == SLURM,
}
_STEPS_S = (-3600.0, -90.0, 90.0, 3600.0, 86400.0)  # of a clock
LEASE_S = 15.0
# Python waits for ever for a thread that has found no memory for its start; this ends the run.
PROGRESS_S = 120.0
SHORT_S, LONG_S = (2.0, 5.0), (40.0, 45.0)  # of a cut: within the lease, and beyond it


@dataclass(frozen=True)
class Hit:
    """One fault. victim: a task, a kind of process, a host, a disk or a clock. for_s: how long it
    lasts. later_s: seconds after the one before. by_s: what a clock is off from then on."""

    kind: str
    victim: str
    for_s: float = 0.0
    later_s: float = 0.0
    by_s: float = 0.0

    def __str__(self) -> str:
        lasts = f" {self.for_s:.1f} s" if self.for_s else ""
        lasts += f" by {self.by_s:+g} s" if self.by_s else ""
        return f"{self.kind} {self.victim}{lasts}" + (
            f" +{self.later_s:.1f} s" if self.later_s else ""
        )


@dataclass(frozen=True)
class Case:
    """moment, at: when the first fault comes: seconds after the start, or the part of the steps
    that is done."""

    seed: int
    number: int
    place: str
    replication: str
    update: str
    feature: str
    moment: str
    at: float
    hits: tuple[Hit, ...] = field(default=())
    encrypt: bool = False

    def __str__(self) -> str:
        hits = ", ".join(map(str, self.hits))
        place = f"encrypted {self.place}" if self.encrypt else self.place
        return (
            f"--seed {self.seed} --case {self.number}: {place}, {self.replication} "
            f"{self.update}, {self.feature}; {self.moment} {self.at:.2f}: {hits}"
        )

    @property
    def remote(self) -> bool:
        return self.place != LOCAL

    @property
    def workers(self) -> int:
        return 3 if self.feature == "backup workers" else 2

    @property
    def tasks(self) -> tuple[str, ...]:
        more = ["client:0"] if self.replication == "in-graph" else []
        more += ["evaluator:0"] if self.feature == "evaluator" else []
        workers = [f"worker:{index}" for index in range(self.workers)]
        return ("ps:0", "ps:1", *workers, *more)

    @property
    def steps(self) -> int:
        """Of an undisturbed run."""
        steps = BATCHES // (2 if self.feature == "accumulate" else 1)
        return steps * (1 if self.update == "sync" else self.workers)

    @property
    def limit_s(self) -> float:
        """By when the run must have ended: only a fault of psclust's waits so long."""
        return PATIENCE_S + sum(hit.for_s for hit in self.hits)


def draw(seed: int, number: int) -> Case:
    """The case of that number."""
    chance = random.Random(f"psclust {seed} {number}")
    place = chance.choice(PLACES)
    replication, update = chance.choice(WAYS)
    features = [
        name for name in FEATURES if name not in _SYNC_BETWEEN or (replication, update) == WAYS[0]
    ]
    feature = chance.choice(features)
    moment = chance.choice(MOMENTS)
    at = {"start": chance.uniform(0.0, 4.0), "end": 0.97}.get(moment, chance.uniform(0.1, 0.8))
    encrypt = place != LOCAL and chance.random() < 0.7
    bare = Case(
        seed, number, place, replication, update, feature, moment, round(at, 2), encrypt=encrypt
    )
    hits: list[Hit] = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        hit = _draw_hit(chance, replace(bare, hits=tuple(hits)))
        if (hit.kind, hit.victim) not in {(other.kind, other.victim) for other in hits}:
            hits.append(hit)
    on_login = place == HOSTS and "log-in" in hits[0].victim
    return replace(bare, hits=tuple(hits), at=0.0 if on_login else bare.at)


def _begins(case: Case) -> bool:
    return case.moment == "start" and not case.hits


def _draw_hit(chance: random.Random, case: Case) -> Hit:
    weights: dict[tuple[str, str], float] = {}
    for kind, (weight, parts) in _KINDS.items():
        here = {what: part for what, part in parts.items() if _exists(what, case)}
        weights |= {(kind, what): weight * part / sum(here.values()) for what, part in here.items()}
    kind, what = chance.choices(list(weights), list(weights.values()))[0]
    victim = _victim(chance, what, case)
    length = chance.uniform(*(LONG_S if kind == "CUT" and chance.random() < 0.3 else SHORT_S))
    lasts = kind in ("STOP", "CUT", "SLOW", "DISK") or what == "slurmd"
    gap = chance.choice((0.0, 0.0, chance.uniform(0.0, 3.0))) if case.hits else 0.0
    by_s = chance.choice(_STEPS_S) if kind == "CLOCK" else 0.0
    return Hit(kind, victim, round(length, 1) if lasts else 0.0, round(gap, 1), by_s)


def _exists(what: str, case: Case) -> bool:
    return what not in _EXISTS or _EXISTS[what](case)


def _victim(chance: random.Random, what: str, case: Case) -> str:
    host, task = chance.choice(NAMES[case.place]), chance.choice(case.tasks)
    words = {"task": task, "link": host, "agent": host, "log-in": f"log-in to {host}"}
    words["host clock"] = f"clock of {host}"
    of_a_host = ("agent and guard", "forwarder", "slurmd", "home")
    return words.get(what, f"{what} of {host}" if what in of_a_host else what)
