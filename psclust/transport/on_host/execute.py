"""Runs a module of psclust, once that is on the host, as a command of its own: what it is to be stands on its standard input."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, BinaryIO


def answer(question: dict[str, Any], stream: BinaryIO) -> dict[str, Any]:
    """`question`: `module`, and the text for its `stdin`; `path`: the folder to import it from, None where it is installed."""
    environ = {**os.environ, **({"PYTHONPATH": question["path"]} if question["path"] else {})}
    command = [sys.executable, "-m", question["module"]]
    done = subprocess.run(command, input=question["stdin"].encode("utf-8"), env=environ, capture_output=True, check=False)
    return {"code": done.returncode, "stdout": done.stdout.decode("utf-8"), "stderr": done.stderr.decode("utf-8", "replace")}
