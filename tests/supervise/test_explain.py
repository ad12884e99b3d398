"""What each task does and waits for, from made-up evidence."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Mapping
from dataclasses import asdict

from frames import EXECUTE, EXTEND, JOIN, LINE, RUNNER, RUNNERS, SESSION, of_psclust, of_tensorflow
from histories import PS, W0, W1, Replay, live, make_plan, task_plan

from psclust.spec.typed_json import build
from psclust.supervise.events import Apply, Exited, HostSilent, Reported, Serving, Stage, Started
from psclust.supervise.explain import Evidence, Seen, explain
from psclust.supervise.python_activity import Activity, Whereabouts, whereabouts
from psclust.supervise.task_finding import Finding, render
from psclust.transport.process_facts import Frame, HostFacts, ProcessFacts
from psclust.transport.strangers import Strangers

STEP = of_psclust("BarrierParticipant.step", "replication/sync/participant.py", 49)
SAVE = of_psclust("Checkpoints.save", "train/checkpoints/checkpoint.py")
RESTORE = of_psclust("Checkpoints.restore", "train/checkpoints/checkpoint.py")
GENERATOR = of_tensorflow("get_iterator", "data/ops/from_generator_op.py")
COMPUTING = of_psclust("StepWatch._while_computing", "replication/sync/step_watch.py")
OWN = Frame("nap", "/train.py", 7)
BARRIER = ProcessFacts("S", ((SESSION, STEP),))


def running(**hosts: str) -> Replay:
    return live(task_plan(PS), task_plan(W0), task_plan(W1, **hosts))


def found(run: Replay, facts: Mapping[str, ProcessFacts], **more: object) -> dict[str, Finding]:
    seen = {W0: Seen(12, "train", 10.0), W1: Seen(12, "train", 10.0)}
    evidence = Evidence(
        run.state, 20.0, **{"seen": seen, "hosts": {"localhost": HostFacts(facts)}, **more}
    )  # type: ignore[arg-type]
    return {each.task: each for each in explain(evidence)}


def told(finding: Finding) -> tuple[str, tuple[str, ...]]:
    return finding.does, finding.waits_for


def test_replicas_wait_in_the_barrier_behind_the_one_that_is_elsewhere() -> None:
    for process, does in [
        (ProcessFacts("T", ((SESSION, STEP),)), "frozen by a signal or a debugger (SIGSTOP)"),
        (ProcessFacts("S", ((OWN, STEP),)), "in its own code: nap (train.py:7)"),
        (ProcessFacts("S", ((SESSION, STEP), (SESSION, SAVE))), "writing a checkpoint"),
        (ProcessFacts("S", ((SESSION, STEP), (OWN, GENERATOR))), "reading input: nap (train.py:7)"),
        (
            ProcessFacts("S", ((SESSION, STEP), (SESSION, COMPUTING))),
            "computing its gradient for step 13",
        ),
        (
            ProcessFacts("S", ((SESSION, STEP), (COMPUTING,), (OWN, GENERATOR))),
            "reading input: nap (train.py:7)",
        ),
        (ProcessFacts("S", ((OWN, STEP), (COMPUTING,))), "in its own code: nap (train.py:7)"),
    ]:
        answer = found(running(), {"worker:0": BARRIER, "worker:1": process})
        assert told(answer["worker:0"]) == ("in the barrier for step 13", ("worker:1",))
        assert told(answer["worker:1"]) == (does, ())
        assert answer["worker:0"].for_s == 10


def test_a_reader_that_waits_for_another_reason_is_not_blamed() -> None:
    answer = found(
        running(),
        {
            "worker:0": ProcessFacts("S", ((SESSION, STEP), (OWN, GENERATOR))),
            "worker:1": ProcessFacts("T"),
        },
    )
    assert told(answer["worker:0"]) == ("in the barrier for step 13", ("worker:1",))


def test_a_checkpoint_that_waits_for_a_server_is_not_blamed() -> None:
    for threads, does in [
        (((SESSION, STEP), (SESSION, SAVE)), Activity.SAVING),
        (((SESSION, RESTORE),), Activity.RESTORING),
    ]:
        saving = ProcessFacts("S", threads)
        answer = found(
            running(), {"worker:0": BARRIER, "worker:1": saving, "ps:0": ProcessFacts("T")}
        )
        assert answer["worker:0"].waits_for == ("ps:0",)
        assert told(answer["worker:1"]) == (does.value, ("ps:0",))


def test_a_training_that_makes_steps_is_not_explained_away() -> None:
    seen = {W0: Seen(12, "train", 19.5)}
    assert found(running(), {"worker:0": BARRIER}, seen=seen)["worker:0"].does == "training"


def test_a_gradient_is_not_computed_without_a_server() -> None:
    computing = ProcessFacts("S", ((SESSION, STEP), (COMPUTING,)))
    answer = found(
        running(), {"ps:0": ProcessFacts("T"), "worker:0": BARRIER, "worker:1": computing}
    )
    for task in ("worker:0", "worker:1"):
        assert told(answer[task]) == ("in step 13", ("ps:0",))


def test_a_call_of_tensorflow_is_shown_with_the_users_line() -> None:
    function = Frame("train", "/lib/model.py", 7)
    monitored = of_tensorflow("MonitoredSession.run", "training/monitored_session.py")
    wait = Frame("Condition.wait", f"{sysconfig.get_paths()['stdlib']}/threading.py", 327)
    schedule = of_tensorflow("join", "distribute/coordinator/cluster_coordinator.py")
    for stack, does in [
        ((SESSION, monitored, LINE, function), "in a session call: s.run(train_op) (train.py:41)"),
        ((SESSION, monitored, function, LINE), "in a session call: train (lib/model.py:7)"),
        ((SESSION, monitored), "in a session call"),
        (
            (SESSION, EXTEND, LINE),
            (
                "in CreateSession: s.run(train_op) (train.py:41) "
                "(with TF_CPP_MIN_LOG_LEVEL=0 its log names the tasks it misses)"
            ),
        ),
        ((EXECUTE, LINE), "in a TensorFlow call: s.run(train_op) (train.py:41)"),
        ((wait, schedule, LINE), "in a TensorFlow call: s.run(train_op) (train.py:41)"),
        ((wait, JOIN, LINE), "in Coordinator.join: s.run(train_op) (train.py:41)"),
        ((wait, LINE), "in its own code: <module> (train.py:41)"),
        ((LINE, EXECUTE), "in its own code: <module> (train.py:41)"),
    ]:
        assert (
            found(running(), {"worker:0": ProcessFacts("S", (stack,))}, seen={})["worker:0"].does
            == does
        )


def test_the_queue_runner_that_coordinator_join_waits_for_is_named_by_its_thread() -> None:
    threads = ((JOIN,), (RUNNER,), (SESSION, RUNNER))
    assert whereabouts(threads, RUNNERS) == Whereabouts(
        Activity.THREADS, op="sync_token_q_EnqueueMany"
    )
    assert whereabouts(threads) == Whereabouts(Activity.THREADS)
    assert whereabouts(((SESSION,), (SESSION, RUNNER)), RUNNERS[::2]) == Whereabouts(
        Activity.SESSION
    )


def test_a_script_that_reports_nothing_is_silent_since_its_last_output() -> None:
    answer = found(
        running(),
        {"worker:0": ProcessFacts("S", ((OWN,),))},
        seen={W1: Seen(3, "train", 12.0)},
        printed={W0: 15.0, W1: 19.0},
    )
    assert (answer["worker:0"].for_s, answer["worker:0"].silent) == (5, True)
    assert (answer["worker:1"].for_s, answer["worker:1"].silent) == (8, False)
    assert found(running(), {}, seen={})["worker:0"].for_s == 19
    assert render([answer["worker:0"]], lambda seconds: f"{seconds:.0f} s") == [
        "worker:0  in its own code: nap (train.py:7), silent for 5 s",
        "",
        "worker:0, innermost first:",
        "    nap (train.py:7)",
    ]


def test_strangers_are_told_of_any_task() -> None:
    facts = {"ps:0": ProcessFacts("S", strangers=Strangers(12, "10.0.0.9"))}
    answer = found(running(), facts)
    assert (answer["ps:0"].strangers, answer["ps:0"].last_stranger) == (12, "10.0.0.9")
    line = "ps:0 closed 12 connections of strangers, the last from 10.0.0.9"
    assert line in render(list(answer.values()), str)


def test_a_program_that_has_ended_and_serves_on_has_ended() -> None:
    run = running()
    run.at(5, Reported(W1, Stage.FINISHED))
    assert (
        found(run, {"worker:1": ProcessFacts("S", ((OWN,),))})["worker:1"].does
        == "has ended; its server stays for the others"
    )


def test_programs_wait_for_servers_in_trouble() -> None:
    session = ProcessFacts("S", ((SESSION,),))
    answer = found(
        running(),
        {"ps:0": ProcessFacts("T"), "worker:0": session, "worker:1": BARRIER},
        seen={W1: Seen(3, "train", 0.0)},
    )
    assert told(answer["worker:0"]) == ("in a session call", ("ps:0",))
    assert answer["worker:1"].waits_for == ("ps:0",)
    answer = found(
        running(),
        {"ps:0": ProcessFacts("T"), "worker:0": ProcessFacts("S", ((EXTEND, SESSION),))},
        seen={},
    )
    assert told(answer["worker:0"]) == ("in CreateSession", ("ps:0",))
    cut = {
        "localhost": HostFacts({"worker:0": session}),
        "b": HostFacts({"worker:1": BARRIER}, ("127.0.0.1:2000",)),
    }
    answer = found(running(host="b"), {}, hosts=cut)
    assert answer["worker:1"].waits_for == (
        "ps:0 (no connection from b to localhost, 127.0.0.1:2000)",
    )
    assert answer["ps:0"].does == "serves at 127.0.0.1:2000"


def test_the_tasks_that_tensorflow_misses_are_read_from_the_output() -> None:
    text = "CreateSession still waiting for response from worker: /job:ps/replica:0/task:%d\n"
    output = f"{text % 7}other\n{text % 1}{text % 0}".encode()
    answer = found(
        running(), {"worker:0": ProcessFacts("S", ((SESSION,),))}, tails={W0: output}, seen={}
    )
    assert told(answer["worker:0"]) == ("in CreateSession", ("ps:0", "ps:1"))


def test_tasks_without_a_program_that_runs_say_where_they_are() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0, preload="tensorflow")))
    run.at(0, Apply(run.plan))
    assert found(run, {})["ps:0"].does == "not started yet: Python is being loaded for it"
    run.at(0, Started(PS, 7))
    answer = found(run, {})
    assert answer["ps:0"].does == "not yet listening at 127.0.0.1:2000"
    assert told(answer["worker:0"]) == ("waits to be started", ("ps:0",))
    run.at(1, Serving(PS))
    assert found(run, {})["worker:0"].does == "not started yet: TensorFlow is being loaded for it"
    run.at(2, Started(W0, 8), Exited(W0, -9))
    assert "was killed by SIGKILL" in found(run, {})["worker:0"].does
    other = running(host="b")
    other.at(5, HostSilent("b"))
    assert found(other, {"worker:0": BARRIER})["worker:0"].waits_for == ("worker:1",)
    assert found(other, {})["worker:1"].does == "host b is silent"


def test_without_py_spy_the_phase_is_all_that_is_known() -> None:
    answer = found(running(), {"worker:0": ProcessFacts("D", no_stack="py-spy is not installed")})
    assert (
        answer["worker:0"].does
        == "in phase train, waiting for a disk (no Python stack: py-spy is not installed)"
    )


def test_a_finding_survives_its_way_to_the_user() -> None:
    finding = Finding("worker:0", "training", ("ps:0",), 1.5, 3, ("a", "b"))
    assert build(Finding, json.loads(json.dumps(asdict(finding)))) == finding


def test_lines_for_people_say_what_holds_up_the_others() -> None:
    answer = found(running(), {"worker:0": BARRIER, "worker:1": ProcessFacts("S", ((OWN, STEP),))})
    assert render(list(answer.values()), lambda seconds: f"{seconds:.0f} s") == [
        "ps:0      serves at 127.0.0.1:2000",
        "worker:0  in the barrier for step 13, for 10 s; waits for worker:1",
        "worker:1  in its own code: nap (train.py:7), after step 12, for 10 s",
        "held up by worker:1: in its own code: nap (train.py:7)",
        "",
        "worker:0, innermost first:",
        "    BaseSession._call_tf_sessionrun (tensorflow/python/client/session.py:1)",
        "    BarrierParticipant.step (psclust/replication/sync/participant.py:49)",
        "",
        "worker:1, innermost first:",
        "    nap (train.py:7)",
        "    BarrierParticipant.step (psclust/replication/sync/participant.py:49)",
    ]
