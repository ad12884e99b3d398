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
    return TaskPlan(
        **{
            **_fields(message),
            "task": task_of(message.task),
            "argv": tuple(message.argv),
            "env": dict(message.env),
            "needs": tuple(map(task_of, message.needs)),
            "ok_exit_codes": tuple(message.ok_exit_codes),
            "restart": RestartPolicy(**_fields(message.restart)),
        }
    )


def facts_message(facts: HostFacts) -> pb.InspectReply:
    processes = {task: _process_message(each) for task, each in facts.processes.items()}
    return pb.InspectReply(processes=processes, refusing=facts.refusing)


def facts_of(message: pb.InspectReply) -> HostFacts:
    processes = {
        task: ProcessFacts(
            **{
                **_fields(each),
                "threads": tuple(
                    tuple(Frame(**_fields(frame)) for frame in thread.frames)
                    for thread in each.threads
                ),
                "usage": _usage(each.usage),
                "names": tuple(each.names),
                "strangers": Strangers(**_fields(each.strangers)),
            }
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
        **{
            **_given(asdict(usage)),
            "sockets": None if usage.sockets is None else pb.Sockets(moved=moved),
            "gpu": None if usage.gpu is None else pb.Gpu(**_given(asdict(usage.gpu))),
        }
    )


def _usage(message: pb.Usage) -> Usage:
    found = _fields(message)
    sockets, gpu = found["sockets"], found["gpu"]
    if sockets is not None:
        found["sockets"] = {
            inode: (each.sent, each.received) for inode, each in sockets.moved.items()
        }
    found["gpu"] = None if gpu is None else GpuUsage(**_fields(gpu))
    return Usage(**found)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _fields(message: Any) -> dict[str, Any]:
    """Of a message, by name; None for an optional one that it lacks."""
    return {
        each.name: getattr(message, each.name)
        if each.containing_oneof is None or message.HasField(each.name)
        else None
        for each in message.DESCRIPTOR.fields
    }
