"""`python -m psclust.control.board_process FOLDER ADDRESS PORT [PARENT]`: TensorBoard, without
TensorFlow, which it would load for a few functions on files: that takes seconds and half a
gigabyte. PARENT: the pid of the process with which it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import types

_PR_SET_PDEATHSIG = 1


def main(folder: str, address: str, port: str, parent: str | None = None) -> int:
    if parent is not None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(parent):  # has ended before the line above
            return 1
    # Where there is a module of this name, TensorBoard takes its own stand-in for TensorFlow.
    sys.modules["tensorboard.compat.notf"] = types.ModuleType("tensorboard.compat.notf")
    from tensorboard import program

    board = program.TensorBoard()
    fast = "true" if _has_data_server() else "false"
    board.configure(
        ("tensorboard", "--logdir", folder, "--host", address, "--port", port, "--load_fast", fast)
    )
    try:
        url = board.launch()
    except program.TensorBoardServerException as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"TensorBoard shows {folder} at {url}\n")
    sys.stdout.flush()
    while True:
        signal.pause()


def _has_data_server() -> bool:
    try:
        import tensorboard_data_server
    except ImportError:
        return False
    return tensorboard_data_server.server_binary() is not None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
