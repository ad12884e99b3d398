"""What it takes to run the old model function: one line."""

import old_estimator

import psclust

program = psclust.Program(old_estimator.model_fn, old_estimator.input_fn, params={"rate": 0.05, "counts": True})
