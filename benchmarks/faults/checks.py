"""What must hold after a run, by docs/ends.md and docs/training.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from faults.cases import BATCHES, LOCAL, SLURM, Case
from faults.hitting import Done
from psclust.rundir.status import RunStatus

EXAMPLES, BATCH = 64, 8
_LEAST_ACCURACY = 0.99  # of what an undisturbed run reaches, 1.0


@dataclass(frozen=True)
class Promise:
    """codes: how `up` may end. said: what it must say if it fails; None: whatever it is."""

    codes: frozenset[int]
    said: str | None = None


_ENDS = {
    ("KILL", "supervisor"): Promise(
        frozenset({1}), "the supervisor (was|and its guard were) killed"
    ),
    ("KILL", "guard"): Promise(frozenset({1}), "guard (was|were) killed"),
    ("KILL", "up"): Promise(frozenset({-9, 137})),
    ("TERM", "up"): Promise(frozenset({143}), "SIGTERM"),
    ("TERM", "supervisor"): Promise(frozenset({143}), "SIGTERM"),
}
# In a batch job TERM asks to save; salloc has no exit code for a command that was killed.
_IN_JOB = {
    ("TERM", "up"): Promise(frozenset({75}), "SIGTERM"),
    ("TERM", "supervisor"): Promise(frozenset({75}), "SIGTERM"),
    ("KILL", "up"): Promise(frozenset({0, 137})),
}
_COSTS_A_HOST = re.compile(r"^((agent and guard|log-in|slurmd) (of|to) )?[hn]\d$")
_MAY_FAIL = Promise(frozenset({0, 1, 3}))


def promised(case: Case, done: Sequence[Done]) -> Promise:
    """How the run may end after the faults that came in time."""
    made = [each for each in done if each.how is not None]
    here = {**_ENDS, **_IN_JOB} if case.place == SLURM else _ENDS
    ends = [here[name] for each in made if (name := (each.hit.kind, each.hit.victim)) in here]
    codes = frozenset().union(*(end.codes for end in ends)) if ends else frozenset({0})
    if 143 in codes and case.moment == "start":
        codes |= {-15}  # TERM ends a Python that has only begun; a shell shows 143
    if ends and (case.moment == "end" or any(each.over for each in made)):
        codes |= {0}  # the run may have been over a moment before
    if any(_may_fail(case, each) for each in made) or len(_lost(made)) > 1:
        codes |= _MAY_FAIL.codes
    return Promise(codes, ends[0].said if len(ends) == 1 and len(made) == 1 else None)


def _may_fail(case: Case, done: Done) -> bool:
    """Whether a run may also give up: a program that breaks by itself, or a host that is lost
    before the cluster is up."""
    kind, victim = done.hit.kind, done.hit.victim
    if kind in ("FILES", "MEMORY"):
        return True
    if victim.startswith("clock of ") and case.moment == "start":
        return True
    if kind == "DISK" and victim == "model":
        return case.moment in ("start", "end")
    on_agents = victim not in case.tasks and "forwarder" not in victim and case.place != LOCAL
    return on_agents and case.moment == "start" and kind in ("KILL", "TERM", "CUT")


def _lost(made: Iterable[Done]) -> set[str]:
    """Hosts that these faults may have cost."""
    return {
        done.hit.victim.rpartition(" ")[2]
        for done in made
        if (done.hit.kind in ("KILL", "TERM") and re.search(_COSTS_A_HOST, done.hit.victim))
        or (done.hit.kind == "CUT" and done.hit.for_s > 10)
    }


def trained(case: Case, model: Path, done: Sequence[Done]) -> Iterator[str]:
    """What is wrong with the checkpoints in the end."""
    import tensorflow as tf

    state = tf.train.get_checkpoint_state(str(model))
    if state is None:
        yield f"no checkpoint in {model}"
        return
    for path in state.all_model_checkpoint_paths:
        try:
            reader = tf.train.load_checkpoint(path)
            found = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
        except (tf.errors.OpError, ValueError) as error:
            yield f"{path} cannot be read: {error}"
            return
    yield from values(case, found, sum(each.how is not None for each in done))


def values(case: Case, found: dict[str, Any], faults: int) -> Iterator[str]:
    """What is wrong with the last checkpoint. faults: how many were made."""
    exact = case.replication == "between-graph" and case.update == "sync"
    slack = 0 if exact else faults * case.workers
    step = int(found["global_step"])
    if case.feature == "handed out":
        yield from _handed_out(case, found, step, slack)
    elif case.feature != "backup workers":
        if abs(step - case.steps) > slack:
            yield f"global step {step}, not {case.steps}"
        yield from _counts(case, found["counts"], slack)
        positions = found["psclust/positions"].tolist()
        if any(abs(position - BATCHES) > slack for position in positions):
            yield f"positions {positions}, not {BATCHES} each"
    elif step < case.steps * 0.5:
        yield f"global step {step}, far below {case.steps}"
    accuracy = _accuracy(found)
    if accuracy < _LEAST_ACCURACY:
        yield f"accuracy {accuracy:.3f}"


def _handed_out(case: Case, found: dict[str, Any], step: int, slack: int) -> Iterator[str]:
    """A synchronous step has as many batches as there are workers with parts, so that their shares
    of it say nothing."""
    epochs = set(found["psclust/part_epochs"].tolist())
    if epochs != {1}:
        yield f"parts were used {sorted(epochs)} times"
    if step < case.steps - slack:
        yield f"global step {step}, less than {case.steps}"
    if case.update == "async":
        yield from _counts(case, found["counts"], slack)


def _counts(case: Case, counts: Any, slack: int) -> Iterator[str]:
    share = 1 / BATCH / (2 if case.feature == "accumulate" else 1)
    share /= case.workers if case.update == "sync" else 1
    uses = BATCHES * BATCH * case.workers / EXAMPLES
    found = counts / share
    if np.abs(found - uses).max() > slack + 0.01:
        yield f"examples were used {found.min():.2f} to {found.max():.2f} times, not {uses:g}"


def _accuracy(values: dict[str, Any]) -> float:
    import tensorflow as tf

    labels = np.arange(EXAMPLES) % 10
    centers = tf.random.stateless_normal([10, 128], [1, 2]).numpy()
    x = centers[labels] + 0.3 * tf.random.stateless_normal([EXAMPLES, 128], [5, 3]).numpy()
    logits = np.maximum(x @ values["first"], 0) @ values["second"]
    return float(np.mean(np.argmax(logits, 1) == labels))


def cause(case: Case, status: RunStatus | None, done: Sequence[Done]) -> Iterator[str]:
    """Whether the task that is named as the first cause is one that was hit. One that has run out
    of files or memory may live on, and others break at it; a full disk breaks who writes there."""
    if status is None or status.ok or status.cause is None:
        return
    if any(each.how and each.hit.kind in ("FILES", "MEMORY") for each in done):
        return
    hit = {each.hit.victim for each in done if each.how is not None}
    if "model" in hit:
        hit.add("client:0" if case.replication == "in-graph" else "worker:0")
    hosts = {victim.rpartition(" ")[2] for victim in hit}
    there = next((task.host for task in status.tasks if task.task == status.cause), None)
    if status.cause not in hit and there not in hosts:
        yield f"the first cause is said to be {status.cause}: {status.text}"
