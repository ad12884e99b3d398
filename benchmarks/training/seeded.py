"""An example of psclust that begins with other weights: `EXAMPLE=digits SEED=3 psclust up ...
seeded:program`."""

from __future__ import annotations

import importlib
import os
from dataclasses import replace

example = importlib.import_module(f"psclust.examples.{os.environ['EXAMPLE']}").program
seed = int(os.environ["SEED"])
params = {**example.params, "seed": seed} if "seed" in example.params else example.params
program = replace(example, params=params, seed=seed)
