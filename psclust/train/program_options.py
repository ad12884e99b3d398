"""The command line of a program: `python -m psclust.train module:program [options]`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from psclust.errors import UsageError
from psclust.train.key_values import key_values

TRAIN = "train"
TRAIN_AND_EVALUATE = "train_and_evaluate"
MODES = (TRAIN_AND_EVALUATE, TRAIN, "evaluate", "predict", "export")


@dataclass(frozen=True, slots=True)
class Options:
    """program: `module:attribute`. changes, config: `key=value` texts for the program's params and
    its TrainConfig. max_steps: the global step to stop at; None trains until the data ends. save_s,
    log_s: seconds between checkpoints (None: the program's) and log lines. do: one of `MODES`.
    eval_steps: batches to evaluate; None: all.
    """

    program: str
    changes: tuple[str, ...] = ()
    model_dir: Path | None = None
    max_steps: int | None = None
    save_s: float | None = None
    log_s: float = 2.0
    config: tuple[str, ...] = ()
    do: str = TRAIN_AND_EVALUATE
    eval_steps: int | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. {self.format_usage().strip()}")


def options_parser() -> argparse.ArgumentParser:
    """The parser of MODULE:PROGRAM and its options. Its `parse_args` raises UsageError."""
    parser = _Parser(
        prog="psclust.train",
        description="Train a psclust.Program as one task of a cluster, or alone.",
        allow_abbrev=False,
    )
    parser.add_argument("program", metavar="MODULE:PROGRAM", help="where the psclust.Program is")
    parser.add_argument(
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one of the program's params",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="replace one of the TrainConfig's settings",
    )
    parser.add_argument(
        "--model-dir",
        type=_absolute,
        help="where checkpoints go and training resumes from; default: the run's folder",
    )
    parser.add_argument(
        "--max-steps",
        type=_positive_int,
        help="stop at this global step (asynchronous: or a step or so later, once each); "
        "default: when the data ends",
    )
    parser.add_argument(
        "--save-seconds",
        dest="save_s",
        metavar="SAVE_SECONDS",
        type=float,
        help="time between checkpoints; default: the program's, or 60",
    )
    parser.add_argument(
        "--log-seconds",
        dest="log_s",
        metavar="LOG_SECONDS",
        type=float,
        default=2.0,
        help="time between log lines (default: %(default)s)",
    )
    parser.add_argument(
        "--do",
        choices=MODES,
        default=TRAIN_AND_EVALUATE,
        help="what to do with the program (default: %(default)s)",
    )
    parser.add_argument(
        "--eval-steps", type=_positive_int, help="batches to evaluate; default: all held-out data"
    )
    return parser


def parse_options(arguments: Sequence[str]) -> Options:
    """Raises UsageError."""
    found = vars(options_parser().parse_args(arguments))
    changes, config = tuple(found.pop("changes")), tuple(found.pop("config"))
    return Options(**found, changes=changes, config=config)


def parse_changes(changes: Sequence[str], params: Mapping[str, Any]) -> dict[str, Any]:
    """`key=value` texts as values of the types in `params`; instead of None, any value. Raises
    UsageError."""
    types = {
        name: "Any" if default is None else type(default).__name__
        for name, default in params.items()
    }
    return key_values("--set", changes, types)


def _absolute(text: str) -> Path:
    return Path(text).absolute()


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value
