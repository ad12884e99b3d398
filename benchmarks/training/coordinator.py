"""The same models with TensorFlow 2's ParameterServerStrategy: one closure a batch, gradients
applied as they come. With a second argument, variables are cut into shards of at most so many
bytes."""

from __future__ import annotations

import os
import sys
from typing import Any

import models
import tensorflow as tf

model = models.MODELS[sys.argv[1]]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
partitioner = (
    tf.distribute.experimental.partitioners.MaxSizePartitioner(int(sys.argv[2]))
    if len(sys.argv) > 2
    else None
)
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
done, at_once = (
    0,
    (2 if sys.argv[1] == "skewed" else 20) * len(resolver.cluster_spec().job_tasks("worker")),
)
while os.getppid() != 1:
    for _ in range(at_once):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
    done += at_once
    print("step", done, flush=True)
