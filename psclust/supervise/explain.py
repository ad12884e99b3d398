"""What every task of a run does, and which it waits for, by the rules' state, the progress of
programs and what was found on the hosts. A pure function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from psclust.rundir.task_progress import Progress
from psclust.spec.cluster import Task
from psclust.supervise.exit_code import describe_exit
from psclust.supervise.python_activity import Activity, Whereabouts, input_thread, whereabouts
from psclust.supervise.run_state import RunState, TaskPhase, TaskState
from psclust.supervise.task_finding import Finding
from psclust.transport.process_facts import Frame, HostFacts, ProcessFacts

STALLED_S = 2.0  # without a step, after which it is asked why
_STACK = 8  # frames that are shown
_PACKAGE = re.compile(
    r"^.*/(?:site|dist)-packages/|^.*(?=/psclust/(?:train|replication|estimator|runtime)/)/"
    r"|^.*/lib/python3[^/]*/"
)
_CREATE_SESSION = re.compile(
    rb"CreateSession still waiting for response from worker: /job:(\w+)/replica:0/task:(\d+)"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """The last progress of a program. since: when it last changed its step or phase, on the clock
    of the run's state."""

    step: int | None
    phase: str | None
    since: float


@dataclass(frozen=True)
class Evidence:
    """seen: of programs. printed: when a program's output last grew. tails: the last output of each
    task. hosts: by name; a host that did not answer is missing. progress: as programs have just
    reported it. now: on the clock of `state`, as all times."""

    state: RunState
    now: float
    seen: Mapping[Task, Seen] = field(default_factory=dict)
    tails: Mapping[Task, bytes] = field(default_factory=dict)
    hosts: Mapping[str, HostFacts] = field(default_factory=dict)
    printed: Mapping[Task, float] = field(default_factory=dict)
    progress: Mapping[Task, Progress] = field(default_factory=dict)

    def facts(self, entry: TaskState) -> ProcessFacts | None:
        """None without a process, or where its host did not answer."""
        host = self.hosts.get(entry.plan.host)
        return host.processes.get(str(entry.plan.task)) if host else None

    def process(self, entry: TaskState) -> ProcessFacts:
        return self.facts(entry) or ProcessFacts()

    def whereabouts(self, entry: TaskState) -> Whereabouts | None:
        process = self.process(entry)
        return whereabouts(process.threads, process.names)


def explain(evidence: Evidence) -> tuple[Finding, ...]:
    """In the order of the plan."""
    entries = evidence.state.tasks
    troubles = {
        task: trouble for task, entry in entries.items() if (trouble := _trouble(evidence, entry))
    }
    where_is = {
        task: evidence.whereabouts(entry)
        for task, entry in entries.items()
        if task not in troubles and entry.plan.role != "server"
    }
    busy = [
        task for task, at in where_is.items() if _works(evidence, entries[task], at, set(troubles))
    ]
    blockers = {*troubles, *busy}
    found = []
    for task, entry in entries.items():
        if task in where_is:
            finding = _client(evidence, entry, where_is, blockers)
        else:
            finding = troubles.get(task) or Finding(str(task), f"serves at {entry.plan.address}")
        found.append(_complete(evidence, entry, finding))
    return tuple(found)


def _trouble(evidence: Evidence, entry: TaskState) -> Finding | None:
    """A finding about a task that is not there, or not able to do anything."""
    name, plan, process = str(entry.plan.task), entry.plan, evidence.process(entry)
    match entry.phase:
        case TaskPhase.WAITING:
            up = {
                task
                for task, other in evidence.state.tasks.items()
                if other.phase is TaskPhase.RUNNING
            }
            if evidence.state.together is not None:
                return Finding(name, "waits to be started with all others", _ending(evidence.state))
            return Finding(
                name,
                "waits to be started",
                tuple(str(need) for need in plan.needs if need not in up),
            )
        case TaskPhase.STOPPING if evidence.state.together is not None:
            return Finding(name, "is being stopped, to start again with all others")
        case TaskPhase.BACKOFF:
            wait_s = max(0.0, (entry.due or evidence.now) - evidence.now)
            return Finding(
                name, f"{describe_exit(entry.exit_code or 0)}; starts again in {wait_s:.0f} s"
            )
        case TaskPhase.DONE | TaskPhase.STOPPED | TaskPhase.FAILED:
            return Finding(name, entry.phase.value)
        case TaskPhase.DROPPED:
            return Finding(name, f"{_loss(evidence.state, entry)}; the run goes on without it")
        case TaskPhase.STOPPING if entry.at is not None:
            return Finding(name, f"leaves host {entry.at}, and starts on {plan.host}")
    if plan.host in evidence.state.silent:
        return Finding(name, f"host {plan.host} is silent")
    if process.is_frozen:
        return Finding(name, "frozen by a signal or a debugger (SIGSTOP)")
    if entry.pid is None:
        what = {"library": "TensorFlow's library", "nothing": "Python"}.get(
            plan.preload or "nothing", "TensorFlow"
        )
        return Finding(name, f"not started yet: {what} is being loaded for it")
    if entry.phase is TaskPhase.STARTING or (entry.awaited and not entry.joined):
        at = whereabouts(process.threads)
        doing = f": {_describe(at, plan.cwd)}" if at else ""
        return Finding(
            name,
            f"not yet listening at {plan.address}{doing}",
            stack=_stack(process.main_thread, plan.cwd),
        )
    return None


def _loss(state: RunState, entry: TaskState) -> str:
    """Why a worker was dropped, as a predicate."""
    if entry.plan.host in state.lost:
        return f"host {entry.plan.host} is lost"
    if entry.plan.host in state.leaving:
        return f"host {entry.plan.host} was to be left"
    hows = [death.how for death in state.deaths if death.task == entry.plan.task]
    return hows[-1] if hows else "dropped"


def _ending(state: RunState) -> tuple[str, ...]:
    """The tasks that have to end before all start again."""
    return tuple(
        str(task)
        for task, entry in state.tasks.items()
        if entry.phase in (TaskPhase.STOPPING, TaskPhase.BACKOFF)
    )


def _works(
    evidence: Evidence, entry: TaskState, at: Whereabouts | None, troubles: set[Task]
) -> bool:
    """Whether it does something that needs no other task, or for which it has all that it needs:
    its servers, and to compute its gradient also its input."""
    if at is None:
        return False
    if at.activity is Activity.COMPUTING and input_thread(evidence.process(entry).threads):
        return False
    if at.activity in (Activity.SAVING, Activity.RESTORING, Activity.COMPUTING):
        return not _missing_servers(evidence, entry, troubles)
    return at.activity in (Activity.OWN, Activity.CALL, Activity.LOADING)


def _client(
    evidence: Evidence,
    entry: TaskState,
    where_is: Mapping[Task, Whereabouts | None],
    blockers: set[Task],
) -> Finding:
    """What a running program does."""
    task, process, seen = (
        entry.plan.task,
        evidence.process(entry),
        evidence.seen.get(entry.plan.task),
    )
    if entry.finished:
        return Finding(str(task), "has ended; its server stays for the others")
    at, step = where_is[task], seen.step if seen else None
    finding = Finding(
        str(task),
        _unknown(entry, seen, process),
        step=step,
        stack=_stack(process.main_thread, entry.plan.cwd),
    )
    if at is not None:
        finding = replace(finding, does=_describe(at, entry.plan.cwd) + _for_step(at, seen))
    if task in blockers or (
        at is not None and at.activity in (Activity.SERVING, Activity.EVALUATING)
    ):
        return finding
    created = _awaited_by_session(evidence.tails.get(task, b""))
    if created and (at is None or at.activity in (Activity.SESSION, Activity.CREATING)):
        creating = Whereabouts(Activity.CREATING, at.frame if at else None)
        return replace(finding, does=_describe(creating, entry.plan.cwd), waits_for=created)
    if seen is not None and seen.phase == "train" and evidence.now - seen.since < STALLED_S:
        return replace(finding, does="training")
    missing = _missing_servers(evidence, entry, blockers)
    if missing:
        does = finding.does
        if at is not None and at.activity in (Activity.BARRIER, Activity.COMPUTING):
            # Without a server it may be anywhere between the two.
            does = "in a step" if step is None else f"in step {step + 1}"
        return replace(finding, does=does, waits_for=missing)
    return _among_replicas(evidence, entry, finding, where_is, blockers)


def _among_replicas(
    evidence: Evidence,
    entry: TaskState,
    finding: Finding,
    where_is: Mapping[Task, Whereabouts | None],
    blockers: set[Task],
) -> Finding:
    """A program whose servers are all well: it waits for its input, or for other replicas."""
    task = entry.plan.task
    others = [
        other
        for other, known in evidence.state.tasks.items()
        if other != task and known.plan.role == "program" and not known.finished
    ]
    culprits = [other for other in others if other in blockers]
    readers = {
        other: thread
        for other in where_is
        if (thread := input_thread(evidence.process(evidence.state.tasks[other]).threads))
    }
    if not culprits and task in readers:
        reading, cwd = readers[task], entry.plan.cwd
        return replace(
            finding,
            does=_describe(Whereabouts(Activity.INPUT, reading[0]), cwd),
            stack=_stack(reading, cwd),
        )
    at = where_is[task]
    if at is not None and at.activity is Activity.CREATING:
        return replace(
            finding,
            does=f"{finding.does} (with TF_CPP_MIN_LOG_LEVEL=0 its log names the tasks it misses)",
        )
    if at is None or at.activity not in (
        Activity.BARRIER,
        Activity.CHIEF,
        Activity.OTHERS,
        Activity.SAVED,
    ):
        return finding
    behind = culprits or [other for other in others if other in readers]
    return replace(finding, waits_for=tuple(map(str, behind)))


def _for_step(at: Whereabouts, seen: Seen | None) -> str:
    in_step = at.activity in (Activity.BARRIER, Activity.COMPUTING)
    return f" for step {seen.step + 1}" if in_step and seen and seen.step is not None else ""


def _awaited_by_session(output: bytes) -> tuple[str, ...]:
    """The tasks that TensorFlow names at the end of a program's output as missing."""
    found: dict[str, None] = {}
    for line in reversed(output.splitlines()):
        named = _CREATE_SESSION.search(line)
        if named is None:
            break
        found[f"{named[1].decode()}:{named[2].decode()}"] = None
    return tuple(sorted(found))


def _missing_servers(evidence: Evidence, entry: TaskState, blockers: set[Task]) -> tuple[str, ...]:
    """The servers it needs that are in trouble, or accept no connection from its host."""
    host = evidence.hosts.get(entry.plan.host)
    refusing = set(host.refusing) if host else set()
    servers = [
        evidence.state.tasks[need] for need in entry.plan.needs if need in evidence.state.tasks
    ]
    bad = [each for each in servers if each.plan.task in blockers or each.plan.address in refusing]
    return tuple(
        str(each.plan.task)
        + (
            ""
            if each.plan.task in blockers
            else f" (no connection from {entry.plan.host} to {each.plan.host}, {each.plan.address})"
        )
        for each in bad
    )


def _describe(at: Whereabouts, cwd: str) -> str:
    """A clause. For a waiting call it quotes the user's line: that is more precise than the
    function's name."""
    where = (
        f"{at.activity.value}, while its queue runner is in {at.op}" if at.op else at.activity.value
    )
    if at.frame is None:
        return where
    if at.frame.text is None or at.activity in (Activity.OWN, Activity.INPUT):
        return f"{where}: {_shown(at.frame, cwd)}"
    return f"{where}: {at.frame.text} ({_line_of(at.frame, cwd)})"


def _shown(frame: Frame, cwd: str) -> str:
    return f"{frame.function} ({_line_of(frame, cwd)})"


def _line_of(frame: Frame, cwd: str) -> str:
    """With the file's path from the package, or from the program's folder."""
    return f"{_PACKAGE.sub('', frame.file).removeprefix(cwd.rstrip('/') + '/')}:{frame.line}"


def _unknown(entry: TaskState, seen: Seen | None, process: ProcessFacts) -> str:
    """For a process whose stack is not known."""
    known = f"in phase {seen.phase}" if seen and seen.phase else "running"
    disk = ", waiting for a disk" if process.state == "D" else ""
    why = f" (no Python stack: {process.no_stack})" if process.no_stack else ""
    return f"{known}{disk}{why}"


def _stack(frames: Sequence[Frame], cwd: str) -> tuple[str, ...]:
    """The innermost frames, of several in a row in TensorFlow only one."""
    kept = [
        frame
        for number, frame in enumerate(frames)
        if not number or not (_in_library(frame) and _in_library(frames[number - 1]))
    ]
    return tuple(_shown(frame, cwd) for frame in kept[:_STACK])


def _in_library(frame: Frame) -> bool:
    return "/tensorflow/" in frame.file


def _complete(evidence: Evidence, entry: TaskState, finding: Finding) -> Finding:
    """With the strangers, and since when a program makes no step, or a task is in a phase without a
    process of use."""
    process, seen = evidence.process(entry), evidence.seen.get(entry.plan.task)
    strangers = process.strangers
    finding = replace(finding, strangers=strangers.closed, last_stranger=strangers.last)
    if process.is_frozen or (entry.plan.role == "server" and entry.phase is TaskPhase.RUNNING):
        return finding
    since = seen.since if seen is not None and entry.alive else entry.since
    # Of a script that reports nothing, its output is all there is to go by.
    silent = (
        entry.plan.role != "server"
        and seen is None
        and entry.pid is not None
        and entry.phase is TaskPhase.RUNNING
    )
    if silent:
        since = max(since, evidence.printed.get(entry.plan.task, since))
    return replace(finding, for_s=round(max(0.0, evidence.now - since), 1), silent=silent)
