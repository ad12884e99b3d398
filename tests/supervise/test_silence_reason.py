"""What is said about a silent run, from made-up evidence."""

from __future__ import annotations

import pytest
from frames import EXECUTE, JOIN, LINE, RUNNER, RUNNERS, SESSION, of_tensorflow
from histories import PS, W1, Replay, live, task_plan

from psclust.spec.cluster import Task
from psclust.supervise.events import Exited, Reported, Stage
from psclust.supervise.explain import Evidence, explain
from psclust.supervise.silence_reason import IDLE, POLLING, describe_silence, is_below
from psclust.transport.gpu_usage import GpuUsage
from psclust.transport.process_facts import Frame, HostFacts, ProcessFacts
from psclust.transport.task_usage import Usage

IN_SESSION = ProcessFacts("S", ((SESSION, LINE),))
NAP = ProcessFacts("S", ((LINE,),))
MORE = "; no step and no line of output for 31 s; psclust why test says more"


def said(run: Replay, *, idle: bool = True, **facts: ProcessFacts) -> str | None:
    """facts: of worker_0, ..."""
    hosts = {"localhost": HostFacts({name.replace("_", ":"): each for name, each in facts.items()})}
    evidence = Evidence(run.state, run.state.silence.since + 31, hosts=hosts)
    return describe_silence(evidence, explain(evidence), idle=idle)


def running(workers: int = 2) -> Replay:
    return live(task_plan(PS), *(task_plan(Task("worker", index)) for index in range(workers)))


def test_who_has_ended_and_who_is_waited_for_is_said_with_the_line() -> None:
    for end in (Exited(W1, 0), Reported(W1, Stage.FINISHED)):
        run = running()
        run.at(5, end)
        for process, where in [
            (IN_SESSION, "in a session call: s.run(train_op) (train.py:41)"),
            (
                ProcessFacts("S", ((SESSION, Frame("step", "/lib/model.py", 7)),)),
                "in a session call: step (lib/model.py:7)",
            ),
            (
                ProcessFacts("S", ((EXECUTE, LINE),)),
                "in a TensorFlow call: s.run(train_op) (train.py:41)",
            ),
            (NAP, "in its own code: <module> (train.py:41)"),
            (ProcessFacts("T"), "frozen by a signal or a debugger (SIGSTOP)"),
            (ProcessFacts("S", no_stack="no Python"), "running (no Python stack: no Python)"),
        ]:
            assert (
                said(run, worker_0=process)
                == f"worker:1 has ended; waiting for worker:0, {where}{MORE}"
            )


def test_the_op_of_a_queue_runner_that_is_waited_for_is_named() -> None:
    run = running()
    run.at(5, Exited(W1, 0))
    process = ProcessFacts("S", ((JOIN, LINE), (RUNNER,), (SESSION, RUNNER)), names=RUNNERS)
    where = "in Coordinator.join, while its queue runner is in sync_token_q_EnqueueMany"
    assert (
        said(run, worker_0=process)
        == f"worker:1 has ended; waiting for worker:0, {where}: s.run(train_op) (train.py:41){MORE}"
    )


def test_a_long_list_of_tasks_is_cut() -> None:
    run = running(9)
    run.at(5, *(Exited(Task("worker", index), 0) for index in range(3)))
    assert said(run, **{f"worker_{index}": IN_SESSION for index in range(3, 9)}) == (
        "worker:0, worker:1 and worker:2 have ended; waiting for worker:3, worker:4, "
        f"worker:5 and 3 more, in a session call: s.run(train_op) (train.py:41){MORE}"
    )


def test_where_none_has_ended_all_must_wait() -> None:
    for processes, is_said in [
        ((IN_SESSION, IN_SESSION), True),
        ((IN_SESSION, ProcessFacts("T")), True),
        ((IN_SESSION, NAP), False),
    ]:
        found = said(running(), worker_0=processes[0], worker_1=processes[1])
        assert (found is not None) is is_said
    assert said(running(), worker_0=IN_SESSION) is None
    assert said(running(), worker_0=IN_SESSION, worker_1=IN_SESSION) == (
        "no step and no line of output for 31 s, and no task uses the CPU: worker:0 and worker:1, "
        "in a session call: s.run(train_op) (train.py:41); psclust why test says more"
    )


def test_the_task_behind_which_others_wait_is_named() -> None:
    assert said(running(), ps_0=ProcessFacts("T"), worker_0=IN_SESSION, worker_1=IN_SESSION) == (
        "no step and no line of output for 31 s, and no task uses the CPU: worker:0 and worker:1, "
        "in a session call: s.run(train_op) (train.py:41), behind ps:0; psclust why test says more"
    )


@pytest.mark.parametrize(
    ("after", "idle"),
    [
        ({"w": Usage(1.0, 9, {1: (10, 10)})}, True),
        ({"w": Usage(1.05, 9, {1: (900, 90)}, GpuUsage(1, 0.0))}, True),
        ({"w": Usage(1.05, 9, None)}, True),
        ({"w": Usage(2.0, 9, {1: (10, 10)})}, False),
        ({"w": Usage(1.0, 9, {1: (10, 99_000)})}, False),
        ({"w": Usage(1.0, 9, {1: (10, 10)}, GpuUsage(1, 0.5))}, False),
        ({"w": Usage(1.0, 9, {1: (10, 10)}), "x": Usage(1.0)}, False),
        ({"w": None}, False),
        ({}, False),
    ],
)
def test_a_run_is_idle_if_no_task_does_anything(
    after: dict[str, Usage | None], *, idle: bool
) -> None:
    before: dict[str, Usage | None] = {"w": Usage(1.0, 9, {1: (10, 10)})}
    assert is_below(IDLE, before, after, 5.0) is idle


def test_who_asks_again_and_again_whether_it_may_go_on_is_not_at_work() -> None:
    before: dict[str, Usage | None] = {"w": Usage(1.0, 9, {1: (0, 0)})}
    after: dict[str, Usage | None] = {
        "w": Usage(1.1, 9, {1: (40_000, 9_000)})
    }  # as TensorFlow's SessionManager.wait_for_session
    assert (is_below(IDLE, before, after, 5.0), is_below(POLLING, before, after, 5.0)) == (
        False,
        True,
    )
    wait = of_tensorflow("SessionManager.wait_for_session", "training/session_manager.py")
    chief = ProcessFacts("S", ((SESSION, wait),))
    assert said(running(), idle=False, worker_0=chief, worker_1=chief) == (
        "no step and no line of output for 31 s: worker:0 and worker:1, "
        "waiting for the chief to prepare the variables; psclust why test says more"
    )
    assert said(running(), idle=False, worker_0=chief, worker_1=IN_SESSION) is None
