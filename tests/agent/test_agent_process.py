"""An agent that was suspended: pending renewals count before pending requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from psclust.agent.agent import Agent, StoppingError
from psclust.agent.lease import clock
from psclust.rundir.folder import ClusterFolder
from psclust.testing.wait import PATIENCE_S, wait_until
from psclust.transport.local_transport import LocalTransport


class Late:
    """An agent that continues after the end of its lease; a request waits for it."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.agent = Agent(ClusterFolder(folder / "late").new_run(), lease_s=-60.0, grace_s=0.1)
        self._transport = LocalTransport(self.agent, {}, {}, log=2)
        self.request: Future[str] = pool.submit(self.agent.call, lambda transport: "carried out")
        self._thread = threading.Thread(target=self.agent.run, args=(self._transport,))

    def resume(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.agent.stop("the test is over")
        self._thread.join(PATIENCE_S)
        self._transport.close()


@pytest.fixture
def late(tmp_path: Path) -> Iterator[Late]:
    with ThreadPoolExecutor() as pool:
        late = Late(tmp_path, pool)
        yield late
        late.end()


def test_a_pending_renewal_is_read_before_the_lease_is_checked(late: Late) -> None:
    late.resume()
    assert late.agent.renew(clock() + 60) > 0
    assert late.request.result(60) == "carried out"
    assert late.agent.stopping is None


@pytest.mark.parametrize("stale", [False, True])
def test_without_a_valid_one_all_tasks_end_and_no_request_is_carried_out(
    late: Late, stale: bool
) -> None:
    late.resume()
    if stale:
        late.agent.renew(clock() - 1)
    with pytest.raises(StoppingError, match="has not renewed its lease"):
        late.request.result(60)
    wait_until(late.agent.stopped.is_set, what="the end")
    with pytest.raises(StoppingError):
        late.agent.renew(clock() + 60)
