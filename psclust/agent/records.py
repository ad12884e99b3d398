"""Records as messages of an agent, and back: the plan of a task, and what a host is found to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from psclust.agent import agent_pb2 as pb
from psclust.plan.request_checks import check_task
from psclust.plan.task_plan import RestartPolicy, TaskPlan
from psclust.spec.cluster import Task
from psclust.transport.gpu_usage import GpuUsage
from psclust.transport.process_facts import Frame, HostFacts, ProcessFacts
from psclust.transport.strangers import Strangers
from psclust.transport.task_usage import Usage


def task_id(task: Task) -> pb.TaskId:
    return pb.TaskId(job=task.job, index=task.index)


def task_of(message: pb.TaskId) -> Task:
    """Raises UsageError."""
    task = Task(message.job, message.index)
    check_task(task)
    return task


def plan_message(plan: TaskPlan) -> pb.TaskPlan:
    return pb.TaskPlan(**_given(asdict(plan)))


def plan_of(message: pb.TaskPlan) -> TaskPlan:
    """Raises UsageError where it names no tasks."""
    policy = message.restart
    return TaskPlan(
        task=task_of(message.task),
        host=message.host,
        address=_optional(message, "address"),
        argv=tuple(message.argv),
        env=dict(message.env),
        cwd=message.cwd,
        preload=_optional(message, "preload"),
        role=message.role,
        serves=message.serves,
        needs=tuple(map(task_of, message.needs)),
        decides=message.decides,
        ok_exit_codes=tuple(message.ok_exit_codes),
        restart=RestartPolicy(
            policy.when, policy.max, policy.window_s, policy.backoff_s, policy.max_backoff_s
        ),
        recovery_wait_s=_optional(message, "recovery_wait_s"),
        free_port=_optional(message, "free_port"),
        elsewhere=message.elsewhere,
        failure_hint=_optional(message, "failure_hint"),
        summaries=_optional(message, "summaries"),
        grows=message.grows,
        leaves=message.leaves,
    )


def facts_message(facts: HostFacts) -> pb.InspectReply:
    processes = {task: _process_message(each) for task, each in facts.processes.items()}
    return pb.InspectReply(processes=processes, refusing=facts.refusing)


def facts_of(message: pb.InspectReply) -> HostFacts:
    processes = {
        task: ProcessFacts(
            _optional(each, "state"),
            tuple(tuple(map(_frame, thread.frames)) for thread in each.threads),
            _optional(each, "no_stack"),
            _usage(each.usage),
            tuple(each.names),
            Strangers(each.strangers.closed, each.strangers.last),
        )
        for task, each in message.processes.items()
    }
    return HostFacts(processes, tuple(message.refusing))


def _process_message(facts: ProcessFacts) -> pb.ProcessFacts:
    threads = [
        pb.Thread(frames=[pb.Frame(**_given(asdict(frame))) for frame in thread])
        for thread in facts.threads
    ]
    return pb.ProcessFacts(
        state=facts.state,
        threads=threads,
        no_stack=facts.no_stack,
        usage=_usage_message(facts.usage),
        names=facts.names,
        strangers=pb.Strangers(**asdict(facts.strangers)),
    )


def _usage_message(usage: Usage) -> pb.Usage:
    moved = {
        inode: pb.Moved(sent=sent, received=received)
        for inode, (sent, received) in (usage.sockets or {}).items()
    }
    return pb.Usage(
        cpu_s=usage.cpu_s,
        memory=usage.memory,
        sockets=None if usage.sockets is None else pb.Sockets(moved=moved),
        gpu=None if usage.gpu is None else pb.Gpu(**_given(asdict(usage.gpu))),
        left=usage.left,
        unread=usage.unread,
        unsent=usage.unsent,
    )


def _usage(message: pb.Usage) -> Usage:
    sockets, gpu = _optional(message, "sockets"), _optional(message, "gpu")
    return Usage(
        message.cpu_s,
        message.memory,
        None
        if sockets is None
        else {inode: (each.sent, each.received) for inode, each in sockets.moved.items()},
        None if gpu is None else GpuUsage(_optional(gpu, "memory"), _optional(gpu, "busy")),
        _optional(message, "left"),
        _optional(message, "unread"),
        _optional(message, "unsent"),
    )


def _frame(message: pb.Frame) -> Frame:
    return Frame(message.function, message.file, message.line, _optional(message, "text"))


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None
