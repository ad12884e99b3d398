"""The inputs and outputs of an exported model, with the names of `tf.estimator.export`: receivers
of requests, outputs as signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from psclust.errors import UsageError


@dataclass(frozen=True)
class ServingInputReceiver:
    """features: for the model function. receiver_tensors: name -> tensor that a request feeds, or
    one tensor, then named `input`. receiver_tensors_alternatives: name -> other tensors to feed
    instead."""

    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PredictOutput:
    """outputs: name -> tensor, or one tensor, then named `output`."""

    outputs: Any

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        return tf.compat.v1.saved_model.predict_signature_def(
            dict(receiver_tensors), named(self.outputs, "output")
        )


@dataclass(frozen=True)
class ClassificationOutput:
    """scores: float [batch, n]. classes: string [batch, n]. At least one of them."""

    scores: Any = None
    classes: Any = None

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Raises UsageError unless requests are serialized examples."""
        examples = _serialized(receiver_tensors, "classification")
        return tf.compat.v1.saved_model.classification_signature_def(
            examples, self.classes, self.scores
        )


@dataclass(frozen=True)
class RegressionOutput:
    """value: float [batch]."""

    value: Any

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Raises UsageError unless requests are serialized examples."""
        return tf.compat.v1.saved_model.regression_signature_def(
            _serialized(receiver_tensors, "regression"), self.value
        )


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Requests are serialized `tf.train.Example` protos, string [batch], parsed by
    `feature_spec`."""

    def receive() -> ServingInputReceiver:
        examples = tf.compat.v1.placeholder(
            tf.string, [default_batch_size], name="input_example_tensor"
        )
        return ServingInputReceiver(
            tf.io.parse_example(examples, dict(feature_spec)), {"examples": examples}
        )

    return receive


def build_raw_serving_input_receiver_fn(
    features: Any, default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Requests are the features themselves. features: name -> anything with a shape and a dtype (a
    tensor, a `tf.TensorSpec`), or a single one."""

    def receive() -> ServingInputReceiver:
        if isinstance(features, Mapping):
            made = {
                name: _placeholder(name, like, default_batch_size)
                for name, like in features.items()
            }
            return ServingInputReceiver(made, made)
        single = _placeholder("input", features, default_batch_size)
        return ServingInputReceiver(single, single)

    return receive


def named(tensors: Any, name: str) -> dict[str, Any]:
    """Tensors by name; a single tensor gets `name`."""
    return dict(tensors) if isinstance(tensors, Mapping) else {name: tensors}


def _placeholder(name: str, like: Any, batch: int | None) -> Any:
    shape = tf.TensorShape(like.shape)
    shape = tf.TensorShape([batch, *shape.as_list()[1:]]) if shape.rank else shape
    return tf.compat.v1.placeholder(like.dtype, shape, name=name)


def _serialized(receiver_tensors: Mapping[str, Any], kind: str) -> Any:
    tensors = list(receiver_tensors.values())
    if len(tensors) != 1 or tensors[0].dtype != tf.string:
        raise UsageError(
            f"a {kind} signature takes serialized examples; build the receiver with "
            "build_parsing_serving_input_receiver_fn, or export a PredictOutput"
        )
    return tensors[0]
