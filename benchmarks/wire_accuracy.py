"""What rounding on the wire costs: each example trained from several seeds with each wire dtype,
and how well it does on held-out data.

    python benchmarks/wire_accuracy.py [--examples digits ...] [--seeds 5] [--replication in-graph]
                                       [--update sync]

Prints the mean over the seeds of each metric of each example, the standard deviation over the seeds
with float32, and how far the means with bfloat16 and int8 are from that with float32, in percent of
it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent / "training"
EXAMPLES = ("digits", "recommender", "residual", "segmentation", "skip_gram", "wide_deep")
DTYPES = ("float32", "bfloat16", "int8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", nargs="+", default=list(EXAMPLES), choices=EXAMPLES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--replication", default="in-graph", choices=["in-graph", "between-graph"])
    parser.add_argument("--update", default="sync", choices=["sync", "async"])
    options = parser.parse_args()
    print(f"{'example':<14} {'metric':<20} {'float32':>9} {'seeds':>7} {'bfloat16':>9} {'int8':>7}")
    for example in options.examples:
        found = {
            dtype: [
                evaluate(example, seed, dtype, options.replication, options.update)
                for seed in range(options.seeds)
            ]
            for dtype in DTYPES
        }
        for metric in found["float32"][0]:
            show(
                example,
                metric,
                {dtype: [each[metric] for each in found[dtype]] for dtype in DTYPES},
            )


def evaluate(
    example: str, seed: int, dtype: str, replication: str, update: str
) -> dict[str, float]:
    """The evaluation after one training."""
    with tempfile.TemporaryDirectory(prefix="psclust-bench-") as folder:
        environ = {
            **os.environ,
            "EXAMPLE": example,
            "SEED": str(seed),
            "PSCLUST_STATE": f"{folder}/state",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        size = [
            "--name",
            "accuracy",
            "--ps",
            "2",
            "--workers",
            "2",
            "--replication",
            replication,
            f"--{update}",
        ]
        program = [
            "seeded:program",
            "--config",
            f"wire_dtype={dtype}",
            "--model-dir",
            f"{folder}/model",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "psclust", "up", *size, *program],
            cwd=HERE,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        numbers = json.loads(Path(folder, "model", "evaluation.json").read_text(encoding="utf-8"))
    print(f"{example} {seed} {dtype} {numbers}", file=sys.stderr, flush=True)
    metrics: dict[str, float] = numbers["metrics"]
    return metrics


def show(example: str, metric: str, found: dict[str, list[float]]) -> None:
    means = {dtype: statistics.fmean(values) for dtype, values in found.items()}
    exact = means["float32"]
    spread = statistics.stdev(found["float32"]) / abs(exact)
    away = [(means[dtype] - exact) / abs(exact) for dtype in DTYPES[1:]]
    print(
        f"{example:<14} {metric:<20} {exact:>9.4f} {spread:>7.2%} "
        f"{away[0]:>+9.2%} {away[1]:>+7.2%}",
        flush=True,
    )


if __name__ == "__main__":
    main()
