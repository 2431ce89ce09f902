"""Runs the encodings in TensorFlow: eagerly, as a `tf.function`, and compiled by XLA."""

from typing import Any

import tensorflow as tf

from benchmarks.measuring import Run
from benchmarks.speed.contestants import Contestant
from benchmarks.speed.scenarios import Arrays

Signature = tuple[tf.TensorSpec, ...]
MODES = ("TensorFlow, eager", "TensorFlow, tf.function", "TensorFlow, XLA")
OPENINGS = 1  # compiled code stays the same


def prepare(mode: str, contestant: Contestant, inputs: Arrays, static: bool, threads: int) -> Run:
    """Returns a run of a contestant on these inputs."""
    tensors = [tf.constant(value) for value in inputs.values()]
    if mode == MODES[0]:
        call, named = contestant.make(), dict(zip(inputs, tensors, strict=True))
        return lambda: call(**named)
    traced = function(contestant, signature(inputs, static), jit_compile=mode == MODES[2])
    return lambda: traced(*tensors)


def function(contestant: Contestant, specs: Signature, **arguments: Any) -> Any:
    """Returns a contestant as a `tf.function` of its inputs, in their order."""
    call, names = contestant.make(), [spec.name for spec in specs]
    return tf.function(lambda *tensors: call(**dict(zip(names, tensors, strict=True))), specs, **arguments)


def signature(inputs: Arrays, static: bool = False) -> Signature:
    """Returns the specs of the inputs, of known shapes or of unknown ones but for the channels."""
    shapes = {
        name: value.shape if static else (None,) * min(value.ndim, 2) + value.shape[2:]
        for name, value in inputs.items()
    }
    return tuple(tf.TensorSpec(shapes[name], value.dtype, name) for name, value in inputs.items())
