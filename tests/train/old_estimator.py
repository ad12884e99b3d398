"""A model function as people wrote it for TensorFlow 1.15: nothing in it knows psclust."""

import tensorflow.compat.v1 as tf


def input_fn(mode):
    x = tf.random.stateless_normal([64, 2], [1, 2])
    y = tf.cast(x[:, 0] - x[:, 1] > 0, tf.int64)
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(8)
    return dataset.repeat(10) if mode == tf.estimator.ModeKeys.TRAIN else dataset


def model_fn(features, labels, mode, params, config):
    kernel = tf.get_variable("kernel", [2, 2])
    bias = tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
    logits = tf.matmul(features["x"], kernel) + bias
    predictions = {"class": tf.argmax(logits, 1), "probabilities": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        export_outputs = {"classify": tf.estimator.export.PredictOutput(predictions)}
        return tf.estimator.EstimatorSpec(
            mode, predictions=predictions, export_outputs=export_outputs
        )
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    accuracy = tf.metrics.accuracy(labels, predictions["class"])
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    optimizer = tf.train.AdamOptimizer(params["rate"])
    train_op = optimizer.minimize(
        loss, global_step=tf.train.get_global_step() if params["counts"] else None
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
