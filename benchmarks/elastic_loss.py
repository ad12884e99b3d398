"""Whether a training whose workers come and go learns as one whose number of workers is fixed.

    python benchmarks/elastic_loss.py [--seeds 5] [--updates async sync]

Each seed trains the network of `training/parts.py`, between-graph, on scikit-learn's digits, with
the same number of batches twice: by three workers, and by two, which `psclust scale` makes six when
a quarter is done, and three when the six have made some steps. Steps are slow meanwhile, as workers
take a while to come. The seed is that of the weights.

Compared are the losses of the last checkpoint over all digits that were trained on, and over the
others: their means over the seeds, beside the spread over the seeds and Welch's t. Below 2 the two
kinds of training do not differ by more than trainings of one kind do.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rows
import runs

sys.path.insert(0, str(runs.TRAINING))

EPOCHS = 30
QUARTER = EPOCHS * 23 * 4 // 4  # updates of an asynchronous training; a part has 4 batches
FIXED, GROWING = "three workers", "two, six, three"
_PATIENCE_S = 600.0


def main() -> None:
    parser = runs.parser(__doc__, rounds=None)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", nargs="+", default=["async"], choices=["async", "sync"])
    options: argparse.Namespace = parser.parse_args()
    found = []
    for update in options.updates:
        losses: dict[str, list[tuple[float, float]]] = {FIXED: [], GROWING: []}
        for seed in range(options.seeds):
            for way in losses:
                losses[way].append(trained(update, seed, growing=way == GROWING))
                print(f"{update}, seed {seed}, {way}: {losses[way][-1]}", flush=True)
        for place, data in enumerate(("trained on", "held out")):
            values = {way: [pair[place] for pair in pairs] for way, pairs in losses.items()}
            show(f"{update}, {data}", values)
            found += [
                rows.Row("elastic_loss", f"{update}, {data}", way, "loss", numbers)
                for way, numbers in values.items()
            ]
    rows.write(options.json, found)


def show(case: str, values: dict[str, list[float]]) -> None:
    means = {way: statistics.mean(numbers) for way, numbers in values.items()}
    spreads = {way: statistics.stdev(numbers) for way, numbers in values.items()}
    error = math.sqrt(sum(spreads[way] ** 2 / len(values[way]) for way in values))
    told = "; ".join(f"{way} {means[way]:.4f} (spread {spreads[way]:.4f})" for way in values)
    print(f"{case}: {told}; t {(means[GROWING] - means[FIXED]) / error:.2f}", flush=True)


def trained(update: str, seed: int, *, growing: bool) -> tuple[float, float]:
    """The losses over the digits trained on, and over the others."""
    with tempfile.TemporaryDirectory() as state:
        path = os.pathsep.join([str(runs.TRAINING), os.environ.get("PYTHONPATH", "")])
        environ = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        model = Path(state) / "model"
        program = ["parts:learning", "--model-dir", str(model), "--set", f"seed={seed}"]
        slow = Path(state) / "slow"
        program += ["--set", f"slow={slow}"]
        command = ["--input", "handed_out", f"--{update}", *program, "--config", f"epochs={EPOCHS}"]
        process = runs.start(
            runs.up(state, 1, 2 if growing else 3, *command), runs.TRAINING, environ
        )
        if growing:
            quarter = QUARTER // (1 if update == "async" else 2)
            _reach(process, Path(state), "worker:0", quarter)
            slow.touch()
            _scale(state, 6)
            six = _reach(process, Path(state), "worker:5", 1)
            _reach(process, Path(state), "worker:0", six + quarter // 4)
            _scale(state, 3)
            slow.unlink()
        said, _ = process.communicate(timeout=_PATIENCE_S)
        if process.returncode != 0:
            sys.exit(f"the training failed:\n{said}")
        return _losses(model)


def _reach(process: subprocess.Popen[str], state: Path, task: str, step: int) -> int:
    """Waits until a task has reached a step; returns where it is."""
    place = f"bench/current/progress/{task.replace(':', '-')}.json"
    until = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        path = state / place
        reached = json.loads(path.read_text(encoding="utf-8"))["step"] if path.exists() else 0
        if reached >= step:
            return int(reached)
        time.sleep(0.05)
    sys.exit(f"{task} made no step {step}")


def _scale(state: str, workers: int) -> None:
    words = [*runs.PSCLUST, "scale", "--run-dir", state, "bench", f"worker={workers}"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def _losses(model: Path) -> tuple[float, float]:
    import parts
    import tensorflow as tf

    from psclust.examples.data import digits

    reader = tf.train.load_checkpoint(str(model))

    def loss(held_out: bool) -> float:
        images, labels = digits(held_out=held_out)
        logits = parts.network(lambda name, shape: reader.get_tensor(name), parts.flat(images))
        return round(float(parts.mean_loss(logits, labels)), 5)

    return loss(False), loss(True)


if __name__ == "__main__":
    main()
