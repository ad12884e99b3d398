"""What each task does and waits for, from made-up evidence."""

from __future__ import annotations

from collections.abc import Mapping

from histories import PS, W0, W1, Replay, make_plan, task_plan

from psclust.supervise.events import Apply, Exited, HostSilent, Serving, Started
from psclust.supervise.explain import Evidence, Seen, explain
from psclust.supervise.python_places import Place, Whereabouts, whereabouts
from psclust.supervise.task_finding import Finding, render
from psclust.transport.process_facts import Frame, HostFacts, ProcessFacts

SESSION = Frame("BaseSession._call_tf_sessionrun", "/v/site-packages/tensorflow/python/client/session.py", 1)
STEP = Frame("BarrierParticipant.step", "/v/site-packages/psclust/train/sync/participant.py", 49)
SAVE = Frame("Checkpoints.save", "/v/site-packages/psclust/train/checkpoints/checkpoint.py", 93)
GENERATOR = Frame("get_iterator", "/v/site-packages/tensorflow/python/data/ops/from_generator_op.py", 1)
COMPUTING = Frame("StepWatch._while_computing", "/v/site-packages/psclust/train/sync/step_watch.py", 60)
OWN = Frame("nap", "/train.py", 7)
BARRIER = ProcessFacts("S", ((SESSION, STEP),))


def running(**hosts: str) -> Replay:
    return Replay(make_plan(task_plan(PS), task_plan(W0), task_plan(W1, **hosts))).up()


def found(run: Replay, facts: Mapping[str, ProcessFacts], **more: object) -> dict[str, Finding]:
    seen = {W0: Seen(12, "train", 10.0), W1: Seen(12, "train", 10.0)}
    evidence = Evidence(run.state, 20.0, **{"seen": seen, "hosts": {"localhost": HostFacts(facts)}, **more})  # type: ignore[arg-type]
    return {each.task: each for each in explain(evidence)}


def test_replicas_wait_in_the_barrier_behind_the_one_that_is_elsewhere() -> None:
    for process, does in [
        (ProcessFacts("T", ((SESSION, STEP),)), "frozen by a signal or a debugger (SIGSTOP)"),
        (ProcessFacts("S", ((OWN, STEP),)), "in its own code: nap (train.py:7)"),
        (ProcessFacts("S", ((SESSION, STEP), (SESSION, SAVE))), "writing a checkpoint"),
        (ProcessFacts("S", ((SESSION, STEP), (OWN, GENERATOR))), "reading input: nap (train.py:7)"),
        (ProcessFacts("S", ((SESSION, STEP), (SESSION, COMPUTING))), "computing its gradient for step 13"),
        (ProcessFacts("S", ((SESSION, STEP), (COMPUTING,), (OWN, GENERATOR))), "reading input: nap (train.py:7)"),
        (ProcessFacts("S", ((OWN, STEP), (COMPUTING,))), "in its own code: nap (train.py:7)"),
    ]:
        answer = found(running(), {"worker:0": BARRIER, "worker:1": process})
        assert (answer["worker:0"].does, answer["worker:0"].waits_for) == ("in the barrier for step 13", ("worker:1",))
        assert (answer["worker:1"].does, answer["worker:1"].waits_for) == (does, ())
        assert answer["worker:0"].for_s == 10


def test_a_reader_that_waits_for_another_reason_is_not_blamed() -> None:
    answer = found(running(), {"worker:0": ProcessFacts("S", ((SESSION, STEP), (OWN, GENERATOR))), "worker:1": ProcessFacts("T")})
    assert (answer["worker:0"].does, answer["worker:0"].waits_for) == ("in the barrier for step 13", ("worker:1",))


def test_a_training_that_makes_steps_is_not_explained_away() -> None:
    seen = {W0: Seen(12, "train", 19.5)}
    assert found(running(), {"worker:0": BARRIER}, seen=seen)["worker:0"].does == "training"


def test_a_gradient_is_not_computed_without_a_server() -> None:
    computing = ProcessFacts("S", ((SESSION, STEP), (COMPUTING,)))
    answer = found(running(), {"ps:0": ProcessFacts("T"), "worker:0": BARRIER, "worker:1": computing})
    for task in ("worker:0", "worker:1"):
        assert (answer[task].does, answer[task].waits_for) == ("in step 13", ("ps:0",))


def test_a_client_that_waits_for_a_step_which_another_thread_makes_is_where_that_is() -> None:
    begun = Frame("RunsAhead.take", "/v/site-packages/psclust/train/step_runs.py", 56)
    in_graph = Frame("_steps", "/v/site-packages/psclust/train/in_graph.py", 174)
    assert whereabouts([[begun, in_graph], [SESSION, begun]]) == Whereabouts(Place.SESSION)
    assert whereabouts([[begun, STEP], [SESSION, begun]]) == Whereabouts(Place.BARRIER)


def test_programs_wait_for_servers_in_trouble() -> None:
    session = ProcessFacts("S", ((SESSION,),))
    answer = found(running(), {"ps:0": ProcessFacts("T"), "worker:0": session, "worker:1": BARRIER}, seen={W1: Seen(3, "train", 0.0)})
    assert (answer["worker:0"].does, answer["worker:0"].waits_for) == ("in CreateSession", ("ps:0",))
    assert answer["worker:1"].waits_for == ("ps:0",)
    cut = {"localhost": HostFacts({"worker:0": session}), "b": HostFacts({"worker:1": BARRIER}, ("127.0.0.1:2000",))}
    answer = found(running(host="b"), {}, hosts=cut)
    assert answer["worker:1"].waits_for == ("ps:0 (no connection from b to 127.0.0.1:2000)",)
    assert answer["ps:0"].does == "serves at 127.0.0.1:2000"


def test_the_tasks_that_tensorflow_misses_are_read_from_the_output() -> None:
    text = "CreateSession still waiting for response from worker: /job:ps/replica:0/task:%d\n"
    output = f"{text % 7}other\n{text % 1}{text % 0}".encode()
    answer = found(running(), {"worker:0": ProcessFacts("S", ((SESSION,),))}, tails={W0: output}, seen={})
    assert (answer["worker:0"].does, answer["worker:0"].waits_for) == ("in CreateSession", ("ps:0", "ps:1"))


def test_tasks_without_a_program_that_runs_say_where_they_are() -> None:
    run = Replay(make_plan(task_plan(PS), task_plan(W0, preload="tensorflow")))
    run.at(0, Apply(run.plan))
    assert found(run, {})["ps:0"].does == "not started yet: Python is being loaded for it"
    run.at(0, Started(PS, 7))
    answer = found(run, {})
    assert answer["ps:0"].does == "not yet listening at 127.0.0.1:2000"
    assert (answer["worker:0"].does, answer["worker:0"].waits_for) == ("waits to be started", ("ps:0",))
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
    assert answer["worker:0"].does == "in phase train, waiting for a disk (no Python stack: py-spy is not installed)"


def test_facts_survive_their_way_from_a_host() -> None:
    facts = HostFacts({"worker:0": BARRIER, "ps:0": ProcessFacts("S", no_stack="no Python")}, ("a:1",))
    assert HostFacts.from_json(facts.to_json()) == facts
    finding = Finding("worker:0", "training", ("ps:0",), 1.5, 3, ("a", "b"))
    assert Finding.from_dict(finding.to_dict()) == finding


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
        "    BarrierParticipant.step (psclust/train/sync/participant.py:49)",
        "",
        "worker:1, innermost first:",
        "    nap (train.py:7)",
        "    BarrierParticipant.step (psclust/train/sync/participant.py:49)",
    ]
