"""How a run takes over a plan whose tasks leave by themselves, or save first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import LIMITS, PS, W0, W1, Replay, live, make_plan, task_plan

from psclust.placement.home import VariablesHome
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.events import (
    Apply,
    Event,
    Exited,
    HostLost,
    Kill,
    NotStarted,
    Reported,
    Restart,
    Serving,
    Stage,
    Started,
    Stepped,
    Stop,
    Tick,
)
from psclust.supervise.run_state import RunPhase, TaskPhase

W2, CLIENT = Task("worker", 2), Task("client", 0)
PS1 = Task("ps", 1)


def worker(task: Task, known: int = 2, *, grows: bool = False) -> TaskPlan:
    """Of an elastic run; its graph knows so many workers."""
    addresses = ",".join(f'"h:{index}"' for index in range(known))
    cluster = f'{{"ps":["h:9"],"worker":[{addresses}]}}'
    return task_plan(task, leaves=True, grows=grows, env={"PSCLUST_CLUSTER": cluster})


def elastic(workers: int, *, grows: bool) -> Apply:
    tasks = (worker(Task("worker", index), workers, grows=grows) for index in range(workers))
    return Apply(make_plan(task_plan(PS), *tasks))


def running(first: Apply) -> Replay:
    return live(*first.plan.tasks)


def test_workers_that_grow_join_while_nobody_stops() -> None:
    run = running(elastic(2, grows=True))
    assert run.at(5, elastic(3, grows=True)) == ["start worker:2/1"]
    assert run.at(6, Started(W2, 9)) == []
    assert {run.phase(task) for task in (PS, W0, W1, W2)} == {TaskPhase.RUNNING}


def test_one_that_is_removed_is_asked_to_leave_and_its_end_is_no_failure() -> None:
    run = running(elastic(2, grows=True))
    assert run.at(5, elastic(1, grows=True)) == ["USR2 worker:1"]
    assert run.at(5 + LIMITS.finish_s - 0.1, Tick()) == []
    assert run.at(40, Tick()) == ["KILL worker:1"]
    assert run.at(41, Exited(W1, -9)) == []
    assert set(run.state.tasks) == {PS, W0}
    assert (run.state.phase, run.state.deaths) == (RunPhase.LIVE, ())


@pytest.mark.parametrize("last", [W0, W1])
def test_the_run_ends_with_those_that_stay(last: Task) -> None:
    run = running(elastic(2, grows=True))
    run.at(5, elastic(1, grows=True))
    first = W1 if last == W0 else W0
    run.at(6, Exited(first, 0))
    assert run.state.phase is (RunPhase.LIVE if last == W0 else RunPhase.FINISHING)
    assert run.at(7, Exited(last, 0)) == ["TERM ps:0"]
    assert run.at(8, Exited(PS, -15)) == ["end 0"]


def test_what_is_not_running_yet_gets_term() -> None:
    run = running(elastic(2, grows=True))
    run.at(5, elastic(3, grows=True))
    assert run.at(6, elastic(2, grows=True)) == ["TERM worker:2"]
    assert run.at(7, NotStarted(W2, "stopped")) == []
    assert W2 not in run.state.tasks


def test_one_that_leaves_and_is_wanted_again_comes_back_after_it_has_left() -> None:
    run = running(elastic(2, grows=True))
    run.at(5, elastic(1, grows=True))
    assert run.at(6, elastic(2, grows=True)) == []
    assert run.at(7, Exited(W1, 0)) == ["start worker:1/2"]


def test_synchronous_workers_start_again_together_once_all_have_left() -> None:
    run = running(elastic(2, grows=False))
    assert run.at(5, elastic(3, grows=False)) == ["USR2 worker:0", "USR2 worker:1"]
    assert run.at(6, Exited(W1, 0)) == []
    assert run.at(7, Exited(W0, 0)) == ["start worker:0/2", "start worker:1/2", "start worker:2/1"]
    assert run.phase(PS) is TaskPhase.RUNNING


def test_a_ps_that_dies_while_workers_leave_is_restarted_for_them() -> None:
    run = running(elastic(2, grows=False))
    run.at(5, elastic(3, grows=False))
    assert run.at(6, Exited(PS, -9), Tick()) == ["start ps:0/2"]


def test_servers_that_a_client_uses_stay_until_it_has_left() -> None:
    def plan(workers: int) -> Apply:
        servers = (
            task_plan(Task("worker", index), serves=True, role="server", needs=(), decides=False)
            for index in range(workers)
        )
        client = replace(worker(CLIENT, workers), decides=True)
        return Apply(make_plan(task_plan(PS), *servers, client))

    run = running(plan(2))
    assert run.at(5, plan(1)) == ["USR2 client:0"]
    assert run.phase(W1) is TaskPhase.RUNNING
    assert run.at(6, Exited(CLIENT, 0)) == ["TERM worker:1", "start client:0/2"]
    run.at(7, Exited(W1, -15))
    assert W1 not in run.state.tasks
    # One that ends by itself meanwhile is gone, too.
    run.at(8, Started(CLIENT, 5))
    run.at(9, plan(3))
    run.at(10, Started(W1, 6), Started(W2, 7), Serving(W1), Serving(W2))
    assert run.at(11, plan(1)) == []
    assert run.at(12, Exited(W2, -9)) == []
    assert W2 not in run.state.tasks


def test_the_user_who_ends_a_run_waits_for_nobody_to_leave() -> None:
    run = running(elastic(2, grows=True))
    run.at(5, elastic(1, grows=True))
    assert run.at(6, Stop("on request")) == ["TERM ps:0", "TERM worker:0", "TERM worker:1"]
    assert run.at(6 + LIMITS.stop_s, Tick()) == ["KILL ps:0", "KILL worker:0", "KILL worker:1"]


def test_a_restart_by_hand_is_as_always() -> None:
    run = running(elastic(2, grows=True))
    assert run.at(5, Restart(W1)) == ["TERM worker:1"]


# ---- a new plan after a checkpoint

OLD = make_plan(task_plan(PS), task_plan(W0), task_plan(W1))
NEW = make_plan(
    task_plan(PS),
    task_plan(PS1),
    *(task_plan(task, cwd="/new", needs=(PS, PS1)) for task in (W0, W1)),
)
SAVE = Apply(NEW, save=True)


def saving() -> Replay:
    run = live(*OLD.tasks)
    assert run.at(5, SAVE) == ["USR1 worker:0", "USR1 worker:1"]
    return run


def test_programs_save_and_then_every_task_starts_again() -> None:
    run = saving()
    assert run.state.notes == (
        "all tasks start again from a checkpoint of now: 2 ps and 2 workers",
    )
    assert run.at(6, Exited(W0, 0)) == []
    assert run.at(7, Exited(W1, 0)) == ["TERM ps:0", "start ps:1/1"]
    assert run.state.phase is RunPhase.LIVE
    assert run.at(8, Exited(PS, -15)) == ["start ps:0/2"]
    run.at(9, Started(PS, 5), Started(PS1, 6), Serving(PS1))
    assert run.at(9, Serving(PS)) == ["start worker:0/2", "start worker:1/2"]
    assert run.state.tasks[W0].plan.cwd == "/new"
    assert run.state.deaths == ()


@pytest.mark.parametrize("code", [1, -9])
def test_what_does_not_save_is_said_and_the_last_checkpoint_counts(code: int) -> None:
    run = saving()
    run.at(6, Exited(W1, 0))
    assert run.at(7, Exited(W0, code)) == ["TERM ps:0", "start ps:1/1"]
    assert "as it was to save; its last checkpoint counts" in run.state.notes[-1]


def test_one_that_does_not_end_is_killed() -> None:
    run = saving()
    run.at(6, Exited(W1, 0))
    assert run.at(5 + LIMITS.finish_s, Tick()) == ["KILL worker:0"]
    assert run.at(40, Exited(W0, -9)) == ["TERM ps:0", "start ps:1/1"]


def test_a_ps_that_dies_meanwhile_comes_back_and_the_plan_follows() -> None:
    run = saving()
    assert run.at(6, Exited(PS, -9), Tick()) == ["start ps:0/2"]
    run.at(7, Exited(W0, 1), Exited(W1, 1))
    assert run.at(8, NotStarted(PS, "stopped")) == ["start ps:0/3"]


def test_one_that_has_ended_before_starts_again_with_the_others() -> None:
    run = live(*OLD.tasks)
    run.at(4, Exited(W1, 0))
    assert run.at(5, SAVE) == ["USR1 worker:0"]
    run.at(6, Exited(W0, 0), Exited(PS, -15))
    run.at(7, Started(PS, 5), Started(PS1, 6), Serving(PS1))
    assert run.at(7, Serving(PS)) == ["start worker:0/2", "start worker:1/2"]


def test_nobody_starts_beside_those_that_save() -> None:
    run = live(*OLD.tasks)
    run.at(4, Exited(W1, -9))
    run.at(4, Started(W1, 9), Exited(W1, -9))
    assert run.phase(W1) is TaskPhase.BACKOFF
    run.at(4.1, SAVE)
    assert run.at(20, Tick()) == []
    assert run.at(21, Exited(W0, 0)) == ["TERM ps:0", "start ps:1/1"]


def test_without_a_program_at_work_the_plan_follows_at_once() -> None:
    run = Replay(OLD)
    run.at(0, Apply(OLD))
    assert run.at(1, SAVE) == ["TERM ps:0", "start ps:1/1"]


@pytest.mark.parametrize("event", [Stop("on request"), Stop("saved", save=True), Kill("now")])
def test_the_end_of_the_run_goes_before_the_plan(event: Event) -> None:
    run = saving()
    run.at(6, event)
    for task in (W0, W1, PS):
        run.at(7, Exited(task, -15))
    assert run.said[-1].startswith("end")
    assert not any(word.startswith("start") for word in run.said)


def test_the_last_of_several_plans_counts() -> None:
    run = saving()
    assert run.at(6, Apply(OLD, save=True)) == []
    run.at(7, Exited(W0, 0))
    assert run.at(7, Exited(W1, 0)) == ["TERM ps:0"]
    assert PS1 not in run.state.tasks


def test_a_lost_host_ends_the_waiting_for_its_program() -> None:
    run = live(*(replace(each, host="b" if each.task == W1 else "a") for each in OLD.tasks))
    run.at(5, SAVE)
    run.at(6, Exited(W0, 0))
    assert "move off b" in run.at(7, HostLost("b", "is gone"))
    assert run.state.next_plan is None


def test_a_run_that_is_about_to_end_takes_the_plan_as_it_always_did() -> None:
    run = live(*OLD.tasks)
    run.at(4, Exited(W0, 0))
    run.at(4, Reported(W1, Stage.FINISHED))
    assert run.state.phase is not RunPhase.LIVE
    assert run.at(5, SAVE) == []


# ---- variables that move to other ps


def moves(ps: int, number: int = 2) -> Apply:
    """An elastic run with so many ps, whose variables have moved so often before."""
    servers = [task_plan(Task("ps", index)) for index in range(ps)]
    home = VariablesHome(f"placement-{number}", "", ("h:9",))
    workers = (
        task_plan(
            task,
            leaves=True,
            grows=True,
            env={"PSCLUST_VARIABLES": home.container},
            needs=tuple(server.task for server in servers),
        )
        for task in (W0, W1)
    )
    return Apply(replace(make_plan(*servers, *workers), home=home))


def test_variables_move_while_the_ps_before_and_after_are_there() -> None:
    run = live(*make_plan(*moves(2, 1).plan.tasks).tasks)
    assert run.at(5, moves(1)) == ["USR2 worker:0", "USR2 worker:1"]
    assert run.at(6, Stepped(), Exited(W0, 0)) == ["start worker:0/2"]
    assert run.at(7, Exited(W1, 0)) == ["start worker:1/2"]
    # A synchronous worker begins, and reports so, while the chief still fetches them.
    assert run.at(8, Started(W0, 8), Started(W1, 9), Stepped(), Tick()) == []
    assert run.phase(PS1) is TaskPhase.RUNNING
    assert run.at(9, Stepped(W1)) == ["TERM ps:1"]
    run.at(10, Exited(PS1, -15))
    assert PS1 not in run.state.tasks
    assert run.state.deaths == ()


def test_a_ps_that_joins_starts_at_once() -> None:
    run = live(*make_plan(*moves(1, 1).plan.tasks).tasks)
    assert run.at(5, moves(2)) == ["USR2 worker:0", "USR2 worker:1", "start ps:1/1"]
    assert run.at(6, Exited(W0, 0), Exited(W1, 0)) == []
    run.at(7, Started(PS1, 7))
    assert run.at(7, Serving(PS1)) == ["start worker:0/2", "start worker:1/2"]


def test_the_run_ends_while_variables_move() -> None:
    run = live(*make_plan(*moves(2, 1).plan.tasks).tasks)
    run.at(5, moves(1), Exited(W0, 0), Exited(W1, 0))
    said = run.at(6, Stop("on request"))
    assert sorted(said) == ["TERM ps:0", "TERM ps:1", "TERM worker:0", "TERM worker:1"]
