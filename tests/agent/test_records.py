"""Records are as they were after a trip through messages."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from psclust.agent import agent_pb2 as pb
from psclust.agent.records import facts_message, facts_of, plan_message, plan_of
from psclust.plan.task_plan import RestartPolicy, TaskPlan
from psclust.spec.cluster import Task
from psclust.transport.gpu_usage import GpuUsage
from psclust.transport.process_facts import Frame, HostFacts, ProcessFacts
from psclust.transport.strangers import Strangers
from psclust.transport.task_usage import Usage

PLAN = TaskPlan(
    task=Task("worker", 1),
    host="a",
    address="10.0.0.1:2000",
    argv=("python", "train.py"),
    env={"A": "1", "B": ""},
    cwd="/project",
    preload="tensorflow",
    role="program",
    serves=False,
    needs=(Task("ps", 0), Task("ps", 1)),
    decides=True,
    ok_exit_codes=(0, 75),
    restart=RestartPolicy("signal", 3, 600.0, 0.5, 30.0),
    recovery_wait_s=1.0,
    free_port=2001,
    elsewhere=True,
    failure_hint="by its flags",
    summaries="/logs",
    grows=True,
    leaves=True,
)
UNKNOWN = replace(
    PLAN,
    address=None,
    preload=None,
    needs=(),
    recovery_wait_s=None,
    free_port=None,
    failure_hint=None,
    summaries=None,
)
FRAMES = (Frame("f", "/train.py", 7, "f()"), Frame("<module>", "/train.py", 9))
FACTS = HostFacts(
    {
        "worker:0": ProcessFacts(
            "S",
            (FRAMES, (), FRAMES[:1]),
            usage=Usage(
                1.5,
                1 << 40,
                {1 << 33: (1 << 40, 2), 7: (0, 0)},
                GpuUsage(5, 0.5),
                1 << 41,
                0,
                1 << 35,
            ),
            names=("MainThread", "a", "b"),
        ),
        "worker:1": ProcessFacts("S", usage=Usage(sockets={}, gpu=GpuUsage())),
        "ps:0": ProcessFacts(no_stack="no Python"),
    },
    ("a:1", "b:2"),
)


@pytest.mark.parametrize("plan", [PLAN, UNKNOWN], ids=["all known", "much unknown"])
def test_a_plan(plan: TaskPlan) -> None:
    assert plan_of(pb.TaskPlan.FromString(plan_message(plan).SerializeToString())) == plan


def test_facts_about_a_host() -> None:
    for facts in (FACTS, HostFacts()):
        sent = facts_message(facts).SerializeToString()
        assert facts_of(pb.InspectReply.FromString(sent)) == facts


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (TaskPlan, pb.TaskPlan),
        (RestartPolicy, pb.RestartPolicy),
        (HostFacts, pb.InspectReply),
        (ProcessFacts, pb.ProcessFacts),
        (Frame, pb.Frame),
        (Usage, pb.Usage),
        (Strangers, pb.Strangers),
        (GpuUsage, pb.Gpu),
    ],
    ids=lambda each: each.__name__,
)
def test_messages_have_the_fields_of_their_records(record: type, message: type) -> None:
    names = [field.name for field in message.DESCRIPTOR.fields]  # type: ignore[attr-defined]
    assert names == [field.name for field in fields(record)]
