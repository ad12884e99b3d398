"""The TensorBoard of a run: its command, its port, and one that stays when the run has ended."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing

from psclust.control.board_child import BoardCommand
from psclust.errors import StartError
from psclust.launch.host_agents import other_hosts
from psclust.launch.up_request import UpRequest
from psclust.plan.summary_folder import chief_of, summary_folder
from psclust.rundir.folder import RunFolder
from psclust.rundir.log_tail import tail_of
from psclust.transport.ports import listen_in
from psclust.transport.process_facts import accepts

_ADDRESS = "127.0.0.1"
_PORTS = "6006-6105"  # from TensorBoard's own on
_START_S = 60.0
_POLL_S = 0.05


def board_command(request: UpRequest, folder: RunFolder) -> BoardCommand | None:
    """Of the folder that the chief writes to, or of what comes here from its host; None without a
    request for it. Raises StartError."""
    chief = chief_of(request.first_tasks.values())
    if not request.file.tensorboard or chief is None:
        return None
    log_dir = (
        str(folder.summaries)
        if other_hosts(request.file)
        else summary_folder(request.file.tensorboard, chief, str(folder.path))
    )
    with closing(listen_in(_ADDRESS, _PORTS)) as free:
        port = free.getsockname()[1]
    argv = (sys.executable, "-m", "psclust.control.board_process", log_dir, _ADDRESS, str(port))
    return BoardCommand(argv, f"{_ADDRESS}:{port}", log_dir, folder.board_log)


def keep_board(command: BoardCommand) -> str:
    """Start it again, for the run that has ended, as a process of its own; returns a line for the
    user. Raises StartError."""
    process = command.start(os.environ)
    deadline = time.monotonic() + _START_S
    while not accepts(command.address):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            last_words = next(iter(tail_of(command.log, 1)), "it printed nothing")
            raise StartError(f"TensorBoard could not be kept: {last_words}. Its log: {command.log}")
        time.sleep(_POLL_S)
    return f"TensorBoard stays at http://{command.address}; end it with: kill {process.pid}"
