"""Names for TensorFlow's types in signatures, for readers: TensorFlow ships no type information, so
mypy takes them for `Any`."""

from __future__ import annotations

from typing import Any, TypeAlias

# Importing this module does not load TensorFlow.
Tensor: TypeAlias = Any  # tf.Tensor, or a value that tf.convert_to_tensor takes
# A tensor, or a structure of tensors: tuples, dicts, SparseTensor, RaggedTensor; None for none.
Tensors: TypeAlias = Any
Gradient: TypeAlias = Any  # tf.Tensor or tf.IndexedSlices
Dataset: TypeAlias = Any  # tf.data.Dataset
# A resource variable, or a ShardedVariable; not placement's description of one.
Variable: TypeAlias = Any
Operation: TypeAlias = Any  # tf.Operation
Graph: TypeAlias = Any  # tf.Graph
Session: TypeAlias = Any  # tf.compat.v1.Session
Optimizer: TypeAlias = Any  # tf.compat.v1.train.Optimizer
Accumulator: TypeAlias = Any  # tf.compat.v1.ConditionalAccumulator, or the sparse one
