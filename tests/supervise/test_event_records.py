"""The records of events.jsonl, by replaying histories, and their reference in docs/events.md."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from histories import PS, W0, W1, Replay, make_plan, task_plan

from psclust.plan.task_plan import TaskPlan
from psclust.rundir.events_file import KINDS
from psclust.rundir.task_progress import Progress
from psclust.spec.cluster import Task
from psclust.supervise.event_records import event_records
from psclust.supervise.events import (
    Apply,
    Event,
    Exited,
    Explained,
    HostLost,
    HostSilent,
    Looked,
    Note,
    Progressed,
    Reported,
    Restart,
    Serving,
    Stage,
    Started,
    Stop,
    Tick,
)
from psclust.supervise.state_machine import transition
from psclust.supervise.task_finding import Finding

PAGE = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")


class Recorder(Replay):
    """`at` returns the records, as dicts."""

    def at(self, now: float, *events: Event) -> list[Any]:
        found: list[Any] = []
        for event in events:
            before = self.state
            self.state, actions = transition(before, event, now)
            found += event_records(before, event, self.state, actions, now)
        for each in found:
            assert set(each) == {"kind", *KINDS[each["kind"]]}
        return found


def brief(records: list[Any]) -> list[str]:
    keys = ("kind", "task", "attempt", "reason", "signal")
    return [" ".join(str(each[key]) for key in keys if key in each) for each in records]


def recorder() -> Recorder:
    run = Recorder(make_plan(task_plan(PS), task_plan(W0), task_plan(W1)))
    run.up()
    return run


def test_a_start_is_recorded_from_the_plan_to_the_answer() -> None:
    run = Recorder(make_plan(task_plan(PS), task_plan(W0)))
    first = run.at(0, Apply(run.plan))
    assert brief(first) == ["plan", "start ps:0 1"]
    assert [task["task"] for task in first[0]["tasks"]] == ["ps:0", "worker:0"]
    found = run.at(1, Started(PS, 7), Serving(PS), Started(W0, 8), Reported(W0, Stage.TRAINED))
    assert brief(found) == [
        "process ps:0 1",
        "serving ps:0 1",
        "start worker:0 1",
        "process worker:0 1",
        "stage worker:0 1",
    ]
    assert (found[0]["pid"], found[1]["address"], found[-1]["stage"]) == (
        7,
        "127.0.0.1:2000",
        "trained",
    )


def test_a_death_is_recorded_with_the_decision_that_follows() -> None:
    run = recorder()
    killed = run.at(5, Exited(W1, -9))
    assert [each["kind"] for each in killed] == ["exit", "restart"]
    assert (killed[0]["exit_code"], killed[0]["after_s"], killed[0]["step"]) == (137, 4, None)
    assert killed[1]["delay_s"] == 0
    assert brief(run.at(5, Tick())) == ["start worker:1 2"]
    run.at(6, Started(W1, 9))
    again = run.at(7, Exited(W1, -9))
    assert 1 <= again[1]["delay_s"] < 1.3
    collateral = run.at(8, Exited(W0, 3))
    assert brief(collateral) == [
        "exit worker:0 1 exited with code 3",
        "restart worker:0 1 exited with code 3",
    ]


def test_a_failure_is_recorded_with_its_cause_and_the_end_once() -> None:
    run = Recorder(make_plan(task_plan(PS), task_plan(W0)))
    run.up()
    failed = run.at(5, Exited(W0, 3))
    assert brief(failed) == [
        "exit worker:0 1 exited with code 3",
        "stopping worker:0 exited with code 3",
        "signal ps:0 1 TERM",
    ]
    stopping = failed[1]
    assert (stopping["ok"], stopping["cause"], stopping["exit_code"]) == (False, "worker:0", 1)
    assert [each["kind"] for each in run.at(6, Exited(PS, -15))] == ["exit", "end"]
    assert run.at(7, Tick()) == []


def test_restarts_say_who_wanted_them() -> None:
    run = recorder()
    assert brief(run.at(5, Restart(W0))) == [
        "restart worker:0 1 requested (psclust restart)",
        "signal worker:0 1 TERM",
    ]
    assert brief(run.at(6, Exited(W0, -15)))[1:] == ["start worker:0 2"]
    changed = make_plan(task_plan(PS), task_plan(W0), replace(task_plan(W1), argv=("other",)))
    found = run.at(7, Apply(changed))
    assert found[0]["changed"] == ["worker:1"]
    assert brief(found)[1:] == [
        "restart worker:1 1 its plan has changed",
        "signal worker:1 1 TERM",
    ]


def test_hosts_notes_and_the_finishing_grace_are_recorded() -> None:
    run = Recorder(make_plan(task_plan(PS), task_plan(W0), task_plan(W1, host="b", decides=False)))
    run.up()
    assert brief(run.at(5, HostSilent("b"), HostSilent("b"), HostSilent("b", silent=False))) == [
        "host_silent",
        "host_back",
    ]
    assert run.at(5, Note("a"), Note("a")) == [{"kind": "note", "text": "a"}]
    (done,) = run.at(5, Progressed(W0, Progress(7, 0.5, phase="done", seconds={"train": 1.0})))
    assert (done["task"], done["phase"], done["step"], done["seconds"]) == (
        "worker:0",
        "done",
        7,
        {"train": 1.0},
    )
    stalled = run.at(5, Explained("b", (Finding("ps:0", "frozen"),)))
    assert [each["kind"] for each in stalled] == ["stalled", "note"]
    assert stalled[0]["findings"][0]["does"] == "frozen"
    assert run.at(5, Looked(4, "c")) == []
    silence = run.at(5, Looked(5, "c", (Finding("ps:0", "frozen"),)))
    assert [(each["kind"], each["text"], len(each["findings"])) for each in silence] == [
        ("silence", "c", 1)
    ]
    assert run.at(5, Looked(5)) == []
    finishing = run.at(6, Exited(W0, 0))[1]
    assert finishing == {"kind": "finishing", "tasks": ["worker:1"], "limit_s": 30}
    again = Recorder(run.plan)
    again.up()
    lost, *decided = again.at(6, HostLost("b", "no contact"))
    assert (lost["host"], lost["tasks"]) == ("b", ["worker:1"])
    assert [each["kind"] for each in decided] == ["move"]


def test_what_does_not_concern_an_attempt_is_not_recorded() -> None:
    run = recorder()
    run.at(5, Stop("enough"))
    assert run.at(6, Serving(W0), Restart(Task("worker", 7))) == []
    assert run.at(7, Stop("again"), Tick()) == []


def test_the_page_lists_every_kind_with_its_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE)
    assert {kind: tuple(re.findall(r"\w+", fields)) for kind, fields in rows} == dict(KINDS)


def test_the_page_has_an_example_of_every_kind() -> None:
    examples = [json.loads(line) for line in re.findall(r"^    (\{.*\})$", PAGE, re.MULTILINE)]
    assert [each["kind"] for each in examples] == list(KINDS)
    for each in examples:
        assert list(each) == ["time", "run_s", "kind", *KINDS[each["kind"]]]


def test_a_plan_that_waits_for_a_checkpoint_is_recorded_when_it_is_taken_over() -> None:
    run = recorder()
    new = make_plan(task_plan(PS), task_plan(W0, argv=("other",)))
    assert brief(run.at(5, Apply(new, save=True))) == [
        "note",
        "restart worker:0 1 all tasks start again from a checkpoint",
        "restart worker:1 1 all tasks start again from a checkpoint",
        "signal worker:0 1 USR1",
        "signal worker:1 1 USR1",
    ]
    run.at(6, Exited(W0, 0))
    found = run.at(7, Exited(W1, 0))
    assert brief(found) == [
        "exit worker:1 1 exited with code 0",
        "plan",
        "restart ps:0 1 all tasks start again from a checkpoint",
        "signal ps:0 1 TERM",
    ]
    assert (found[1]["changed"], found[1]["removed"]) == (["worker:0"], ["worker:1"])


def test_who_trains_in_an_elastic_run_is_recorded() -> None:
    def worker(index: int) -> TaskPlan:
        host = "b" if index == 2 else "a"
        return task_plan(Task("worker", index), host=host, grows=True, leaves=True)

    four = [task_plan(PS), *map(worker, range(4))]
    plan = replace(make_plan(*four[:4]), min_workers=1)
    run = Recorder(plan)
    run.up()
    grown = replace(make_plan(*four), min_workers=1)
    joined = run.at(5, Apply(grown))
    lost = run.at(6, HostLost("b", "silent"), Apply(replace(grown, lost=("b",))))
    left = run.at(7, Apply(replace(make_plan(*four[:4]), min_workers=1, lost=("b",))))
    found = [each for each in (*joined, *lost, *left) if each["kind"] == "workers"]
    assert [(each["number"], each["joined"], each["left"], each["dropped"]) for each in found] == [
        (4, ["worker:3"], [], []),
        (3, [], [], ["worker:2"]),
        (2, [], ["worker:3"], []),
    ]
