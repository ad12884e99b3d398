"""What it takes to run the old model function."""

import old_estimator
import tensorflow as tf

import psclust

program = psclust.Program(
    old_estimator.model_fn,
    old_estimator.input_fn,
    params={"rate": 0.05, "counts": True},
    serving_input_receiver_fn=psclust.estimator.export.build_raw_serving_input_receiver_fn(
        {"x": tf.TensorSpec([None, 2])}
    ),
)
