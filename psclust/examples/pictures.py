"""Pictures of what the examples learn: the masks of the segmentation, the word vectors of
skip-gram, and the loss of four ways to train.

    python -m psclust.examples.pictures
    python -m psclust.examples.pictures --only masks --steps 50 /tmp

The first makes all, in docs/pictures/ of the current folder.

Masks and words are trained in this process, the four ways by `psclust up`. Needs matplotlib: pip
install psclust[pictures].
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import accumulate, groupby
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import tensorflow as tf

from psclust.errors import PsclustError, UsageError
from psclust.examples.data import installed

_WAYS = [
    (replication, update)
    for replication in ("between-graph", "in-graph")
    for update in ("sync", "async")
]
_COLORS = {"sync": "#1f6fb5", "async": "#c2571a"}
_SCENES = 6
_WORDS = 130
_AVERAGED = 15  # losses of batches, in a curve
# "step 123 loss 0.2687 717 examples/s", as the chief's log has it
_LINE = re.compile(r"step (\d+) loss ([-+.\de]+)")


def figure(width: float, height: float) -> Any:
    """Of matplotlib, in inches. Raises UsageError if that is not installed."""
    return installed("matplotlib.figure", "pictures").Figure(
        figsize=(width, height), dpi=100, layout="constrained"
    )


def masks(folder: Path, steps: int | None) -> Any:
    """Scenes that were held out, the digit of every pixel, and what the network takes it for."""
    from psclust.examples.segmentation import COLORS, program, scenes

    program.train(folder, max_steps=steps)
    images, classes = scenes(90, held_out=True)
    guesses = [
        prediction["classes"]
        for prediction, _ in zip(program.predict(folder), range(_SCENES), strict=False)
    ]
    drawn = figure(8.4, 4.5)
    rows = {
        "scene": images,
        "truth": COLORS[classes],
        "guess": [COLORS[guess] for guess in guesses],
    }
    axes = drawn.subplots(len(rows), _SCENES)
    for line, (name, pictures) in zip(axes, rows.items(), strict=True):
        line[0].set_ylabel(name)
        for place, picture in zip(line, pictures, strict=False):
            place.imshow(picture, cmap="gray", interpolation="nearest")
            place.set(xticks=[], yticks=[])
    return drawn


def words(folder: Path, steps: int | None) -> Any:
    """The most frequent words, near each other where their vectors are."""
    from psclust.examples.skip_gram import program, vocabulary

    program.train(folder, max_steps=steps)
    vectors = tf.train.load_checkpoint(str(folder)).get_tensor("vectors")[:_WORDS]
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    places = (
        installed("sklearn.manifold", "pictures")
        .TSNE(metric="cosine", perplexity=12, init="pca", random_state=1)
        .fit_transform(unit)
    )
    drawn = figure(8.4, 6.4)
    axes = drawn.subplots()
    axes.scatter(places[:, 0], places[:, 1], s=4, color=_COLORS["sync"])
    for word, place in zip(vocabulary()[0], places, strict=False):
        axes.annotate(word, place, xytext=(2, 2), textcoords="offset points", fontsize=8)
    axes.set(xticks=[], yticks=[])
    return drawn


def ways(folder: Path, steps: int | None) -> Any:
    """The loss of the digits in each way to train, by steps and by seconds."""
    drawn = figure(8.4, 3.4)
    by_step, by_time = drawn.subplots(1, 2, sharey=True)
    for replication, update in _WAYS:
        lines = _losses(folder, replication, update, steps)
        made, losses, seconds = (np.array(column) for column in zip(*lines, strict=True))
        kernel = np.ones(min(_AVERAGED, len(losses)))
        smooth = np.convolve(losses, kernel, "valid") / len(kernel)
        style = {
            "color": _COLORS[update],
            "linestyle": "-" if replication == "in-graph" else "--",
            "linewidth": 1.3,
        }
        for axes, at in ((by_step, made), (by_time, seconds - seconds[0])):
            axes.plot(at[len(kernel) - 1 :], smooth, label=f"{replication} {update}", **style)
    by_step.set(yscale="log", ylabel=f"loss, mean of {_AVERAGED} batches", xlabel="steps")
    by_time.set(xlabel="seconds since the first step")
    by_time.legend(frameon=False, fontsize=9)
    return drawn


def _losses(
    folder: Path, replication: str, update: str, steps: int | None
) -> list[tuple[int, float, float]]:
    """(step, loss, time in seconds when all steps until then are logged), by steps. Raises
    UsageError if the training fails."""
    name = f"{replication}-{update}"
    command = (
        f"--name {name} --ps 2 --workers 2 --replication {replication} --{update} "
        "psclust.examples.digits:program --log-seconds 0"
    )
    limit = [f"--max-steps={steps}"] if steps is not None else []
    _psclust(folder, "up", *command.split(), *limit)
    found = (
        json.loads(line)
        for line in _psclust(folder, "logs", name, "--json", "--grep", _LINE.pattern).splitlines()
    )
    # Of all workers: asynchronous, one may have made every step before another has begun.
    # Synchronous, each logs the loss of its own batch.
    logged = sorted(
        (int(match[1]), float(match[2]), line["time"])
        for line in found
        if (match := _LINE.match(line["text"]))
    )
    steps_made = [list(lines) for _, lines in groupby(logged, key=lambda line: line[0])]
    times = accumulate((max(at for *_, at in lines) for lines in steps_made), max)
    return [
        (lines[0][0], fmean(loss for _, loss, _ in lines), at)
        for lines, at in zip(steps_made, times, strict=True)
    ]


def _psclust(folder: Path, verb: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "psclust", verb, "--run-dir", str(folder), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, check=False
    )
    if done.returncode:
        raise UsageError(
            f"psclust {verb} {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


PICTURES = {"masks": masks, "words": words, "ways": ways}


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        prog="python -m psclust.examples.pictures", description="Draw what the examples learn."
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("docs/pictures"),
        help="where to (default: docs/pictures)",
    )
    parser.add_argument("--only", choices=list(PICTURES), help="this picture alone")
    parser.add_argument(
        "--steps", type=int, help="stop each training at this step (default: when its data ends)"
    )
    given = parser.parse_args(arguments)
    tf.compat.v1.disable_eager_execution()
    try:
        figure(1, 1)  # before anything is trained
        given.folder.mkdir(parents=True, exist_ok=True)
        for name in [given.only] if given.only else PICTURES:
            with tempfile.TemporaryDirectory(prefix="psclust-") as scratch:
                path = given.folder / f"{name}.png"
                PICTURES[name](Path(scratch), given.steps).savefig(path)
                print(path)
    except PsclustError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
