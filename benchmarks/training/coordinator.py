"""The same models with TensorFlow 2's ParameterServerStrategy: one closure a batch, gradients
applied as they come. `--partitioner min-size` partitions variables as TensorFlow's tutorial does,
a number into shards of at most so many bytes."""

from __future__ import annotations

import argparse
import os
from typing import Any

import models
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("--partitioner")
flags = parser.parse_args()
model = models.MODELS[flags.model]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
partitioners = tf.distribute.experimental.partitioners
if flags.partitioner is None:
    partitioner = None
elif flags.partitioner == "min-size":
    # https://www.tensorflow.org/tutorials/distribute/parameter_server_training
    partitioner = partitioners.MinSizePartitioner(
        min_shard_bytes=256 << 10, max_shards=len(resolver.cluster_spec().job_tasks("ps"))
    )
else:
    partitioner = partitioners.MaxSizePartitioner(int(flags.partitioner))
strategy = tf.distribute.ParameterServerStrategy(resolver, partitioner)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
made: dict[str, Any] = {}
shapes: dict[str, list[int]] = {}


def shape_only(name: str, shape: list[int]) -> Any:
    shapes[name] = shape
    return tf.zeros(shape)


def batch_shapes(features: Any, labels: Any) -> Any:
    return model.loss(shape_only, features, labels)


example = next(iter(model.dataset()))
tf.function(batch_shapes).get_concrete_function(*example)
with strategy.scope():
    for name, shape in shapes.items():
        made[name] = tf.Variable(
            tf.keras.initializers.GlorotUniform()(shape) if len(shape) > 1 else tf.zeros(shape),
            name=name,
        )


@tf.function
def step(iterator: Any) -> None:
    def replica(features: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            loss = model.loss(lambda name, _: made[name], features, labels)
        variables = [
            shard
            for variable in made.values()
            for shard in getattr(variable, "variables", [variable])
        ]
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(
                    tf.IndexedSlices(gradient.values * models.RATE, gradient.indices)
                )
            else:
                variable.assign_sub(gradient * models.RATE)

    strategy.run(replica, args=next(iterator))


batches = iter(
    coordinator.create_per_worker_dataset(
        lambda: strategy.distribute_datasets_from_function(lambda _: model.dataset())
    )
)
done, workers = 0, len(resolver.cluster_spec().job_tasks("worker"))
at_once = (2 if flags.model == "skewed" else 20) * workers
while os.getppid() != 1:
    for _ in range(at_once):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
    done += at_once
    print("step", done, flush=True)
