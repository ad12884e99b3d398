"""The restart rule: whether, and after what delay, a dead task starts again, and who with it. A
limit within a window; at once the first time, then after an exponential back-off with jitter; no
restart after a failure that another attempt would repeat."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from psclust.errors import UsageError
from psclust.plan.task_plan import TaskPlan
from psclust.spec.jobs import PS
from psclust.spec.plurals import counted
from psclust.supervise.events import Death, Stage
from psclust.supervise.exit_code import ended_by_signal
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase, TaskState

# A failure within this many seconds of a violent death elsewhere is taken for its consequence.
COLLATERAL_WINDOW_S = 30.0
# An attempt that lived longer than this got far: that it ended like the one before is no sign that
# the next one will.
_SHORT_LIFE_S = 60.0
_NO_SUCH_COMMAND = (126, 127)  # a shell's exit codes
_LONGEST_ERROR = 300  # characters


def restart_delay_s(state: RunState, entry: TaskState, code: int, now: float) -> float | None:
    """Seconds until a task that exited with `code` just now starts again; None if it does not. Its
    death is the last of `state.deaths`."""
    if (
        never_served(entry, code)
        or not _policy_allows(state, entry.plan, code, now)
        or why_permanent(state, entry) is not None
    ):
        return None
    return backoff_s(entry, now)


def never_served(entry: TaskState, code: int) -> bool:
    """Whether a bare server gave up by itself before it answered, as it would again."""
    return entry.plan.serves and entry.stage is not Stage.ANSWERED and code > 0


def backoff_s(entry: TaskState, now: float) -> float | None:
    """Seconds until the next start by the policy's numbers, none for the first one within the
    window; None if the limit is reached. The jitter (up to a quarter more) is a hash of task and
    attempt, so that a replayed history gives the same answer."""
    policy = entry.plan.restart
    recent = sum(1 for at in entry.restarts if now - at <= policy.window_s)
    if recent >= policy.max:
        return None
    if not recent:
        return 0.0
    delay_s: float = min(policy.backoff_s * 2.0 ** (recent - 1), policy.max_backoff_s)
    jitter = zlib.crc32(f"{entry.plan.task}/{len(entry.restarts)}".encode()) % 1000 / 4000
    return delay_s * (1 + jitter)


def _policy_allows(state: RunState, plan: TaskPlan, code: int, now: float) -> bool:
    if plan.restart.when != "signal":
        return plan.restart.when == "failure"
    if any(
        entry.plan.host in state.silent for task, entry in state.tasks.items() if task != plan.task
    ):
        return True  # the silent host may be the reason
    others = (death for death in state.deaths[:-1] if death.task != plan.task)
    return ended_by_signal(code) or any(
        ended_by_signal(death.code) and now - death.at <= COLLATERAL_WINDOW_S for death in others
    )


def why_permanent(state: RunState, entry: TaskState) -> str | None:
    """Why another attempt would fail as the last one did, as a clause; None if it may not."""
    *earlier, last = [death for death in state.deaths if death.task == entry.plan.task]
    if last.diagnosis.permanent or last.code in _NO_SUCH_COMMAND:
        return "another attempt would fail alike"
    if entry.plan.restart.when != "failure":
        return None  # what else died may be the reason, twice too
    if last.code == UsageError.exit_code and "psclust.train" in entry.plan.argv:
        return "another attempt would fail alike"
    return "two attempts failed alike" if earlier and _repeats(earlier[-1], last) else None


def _repeats(before: Death, last: Death) -> bool:
    in_turn = (
        before.attempt == last.attempt - 1
        and max(before.lifetime_s, last.lifetime_s) <= _SHORT_LIFE_S
    )
    return in_turn and before.code == last.code and last.diagnosis.repeats(before.diagnosis)


@dataclass(frozen=True, slots=True)
class FailureRule:
    """A key of the cluster file about deaths, `on_ps_failure` or `on_worker_failure`, and its
    value."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}: {self.value}"


def failure_rule(state: RunState, plan: TaskPlan) -> FailureRule | None:
    """The rule for the death of a task; None if it concerns that task alone: an observer, or a task
    that dies when the training is over."""
    if (
        state.plan is None
        or state.phase is not RunPhase.LIVE
        or plan.role == "side"
        or servers_are_done(state)
    ):
        return None
    if plan.task.job == PS:
        return FailureRule("on_ps_failure", state.plan.on_ps_failure)
    return FailureRule("on_worker_failure", state.plan.on_worker_failure)


def servers_are_done(state: RunState) -> bool:
    """Whether no program needs a server, or another program, any more."""
    programs = [
        entry
        for entry in state.tasks.values()
        if entry.plan.role == "program" and entry.phase is not TaskPhase.DROPPED
    ]
    return bool(programs) and all(
        entry.finished or (entry.stage in (Stage.TRAINED, Stage.LEAVING) and entry.alive)
        for entry in programs
    )


def describe_loss(state: RunState, entry: TaskState, now: float) -> str:
    """A sentence about a task that the run goes on without, after its last death."""
    last = next(death for death in reversed(state.deaths) if death.task == entry.plan.task)
    text, error = (
        f"{entry.plan.task} {last.how} and is not started again",
        last.diagnosis.error[:_LONGEST_ERROR],
    )
    why = why_permanent(state, entry)
    if why is not None:
        text += f": {why} ({error})" if error else f": {why}"
    elif entry.restarts and backoff_s(entry, now) is None:
        text += f": {describe_limit(entry)}"
    return "; ".join(
        [
            text,
            "the run goes on without it",
            *([last.diagnosis.remedy] if last.diagnosis.remedy else []),
        ]
    )


def describe_limit(entry: TaskState) -> str:
    """A clause for a task that has no restart left."""
    policy = entry.plan.restart
    return (
        f"{entry.plan.task} had used its {counted(policy.max, 'restart')} within "
        f"{policy.window_s:g} s"
    )
