"""`psclust up --top`: follows a run by the table of `psclust top`, not by what its tasks print."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection

from rich.console import Console

from psclust.cli import streams
from psclust.cli.follower import Follower
from psclust.cli.live_view import LiveView
from psclust.cli.top_looks import BackgroundLooks, Read, TopTable
from psclust.rundir.folder import RunFolder
from psclust.rundir.status import RunStatus


class TopFollower(Follower):
    """Shows events of the run as lines, and below them the table and the footer."""

    def __init__(
        self,
        folder: RunFolder,
        view: LiveView,
        read: Read,
        name: str,
        *,
        shown: Collection[str] = (),
    ) -> None:
        super().__init__(folder, view, shown=shown)
        self._looks = BackgroundLooks(read)
        self._table = TopTable(name)

    def show(self, status: RunStatus) -> bool:
        """The logs are not read, so nothing is ever behind."""
        self._show_events(status)
        found = self._looks.latest()
        if found is not None:
            console = Console(
                file=io.StringIO(),
                width=self.view.columns,
                force_terminal=self.view.colors,
                soft_wrap=False,
                highlight=False,
            )
            console.print(self._table.render(found, self.view.columns))
            self.view.table(console.file.getvalue().splitlines())  # type: ignore[attr-defined]
        self.view.footer(self._footer(status))
        return False

    def finish(self, status: RunStatus, stop: Callable[[], bool] = streams.reader_has_left) -> None:
        self._looks.stop()
