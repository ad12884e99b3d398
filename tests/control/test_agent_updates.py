"""What the supervisor's side makes of an agent's stream."""

from __future__ import annotations

from pathlib import Path

import pytest
from started_agents import WORKER, Recorder

from psclust.agent import agent_pb2 as pb
from psclust.agent.agent import Agent
from psclust.agent.update_stream import stream_updates
from psclust.control.agent_updates import AgentUpdates
from psclust.rundir.folder import ClusterFolder
from psclust.spec.cluster import Task


class WithoutOutput(Agent):
    def drain(self, task: Task, timeout_s: float) -> None: ...


def test_the_evidence_of_an_out_of_memory_kill_comes_along(tmp_path: Path) -> None:
    agent = WithoutOutput(ClusterFolder(tmp_path / "there").new_run(), lease_s=600.0, grace_s=0.1)
    recorder = Recorder()
    updates = AgentUpdates("a", ClusterFolder(tmp_path / "here").new_run(), recorder.post)
    agent.exited(WORKER, -9, "its log names it")
    agent.exited(WORKER, -9)
    looks = iter([True, True, False])
    for update in stream_updates(agent, pb.WatchRequest(), lambda: next(looks)):
        updates.apply(update)
    assert recorder.events == [("exited", WORKER, -9)] * 2
    assert recorder.evidence == ["its log names it", None]


@pytest.mark.parametrize(
    "update",
    [
        pb.Update(output=pb.Output(task=pb.TaskId(job="../../x"), attempt=1, data=b"lost")),
        pb.Update(progress=pb.Progress(task=pb.TaskId(job="/x"), content=b"{}")),
        pb.Update(event=pb.Event(number=1, task=pb.TaskId(job="../x"), exited=0)),
    ],
)
def test_an_update_of_no_task_is_left_out(tmp_path: Path, update: pb.Update) -> None:
    folder = ClusterFolder(tmp_path / "here").new_run()
    recorder = Recorder()
    updates = AgentUpdates("a", folder, recorder.post)
    before = sorted(tmp_path.rglob("*"))
    updates.apply(update)
    assert sorted(tmp_path.rglob("*")) == before
    assert recorder.events == []
