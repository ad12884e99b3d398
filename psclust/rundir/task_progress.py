"""The progress file: what a task's program reports about itself. The program writes it, the
supervisor and `up` read it. Beside it, on a signal, it writes the stacks of its Python threads."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from psclust.placement.table import Held
from psclust.spec.typed_json import JsonRecord, Measured, build, parse_json

STACKS_SUFFIX = ".stacks"
# Programs and batch systems use SIGUSR1 and SIGUSR2, psclust itself the first; real-time signals
# near the last one are free.
STACKS_SIGNAL = int(signal.SIGRTMAX) - 1
# Phases of a script whose process is only a server by now: it called Server.join, or exited
# successfully.
SERVING = "serving"
FINISHED = "finished"
# Phases in which a psclust program needs no other task any more; in the last one it is about to
# exit.
TRAINED = ("save", "evaluate", "predict", "export", "done")


@dataclass(frozen=True, slots=True)
class Model:
    """Of a program's variables, as `Progress.model` has it."""

    folder: str | None
    tensorflow: str
    ps: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Progress(JsonRecord):
    """step: global step. examples_per_s: of this task. seconds: spent in the phases that have ended
    and, within them, in "saving" checkpoints, "waiting" for other tasks between steps, and
    "barrier": from each gradient to the next step of a synchronous training. model: of the task
    that writes checkpoints, their `folder`, the version of `tensorflow`, and what each `ps` holds
    (`psclust.placement.table.Held`). None: unknown."""

    step: int | None = None
    loss: Measured | None = None
    examples_per_s: Measured | None = None
    phase: str | None = None
    metrics: Mapping[str, Measured] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    model: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, text: str) -> Progress:
        """Ignores unknown keys. Raises ValueError for anything but a progress record."""
        found = build(cls, parse_json(text))
        if found.model is not None:
            build(Model, found.model)
        return found


def stack_file(progress_file: str) -> Path:
    return Path(progress_file).with_suffix(STACKS_SUFFIX)
