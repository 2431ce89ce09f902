"""Values that are known during a layer's call, and that stay valid in a trace.

Keras runs a layer eagerly, traces it, compiles it and exports it, on three backends. A trace evaluates a Python
condition once and freezes its result into the graph, where it is wrong at the next size. Uncertain values must
therefore be computed in the graph.
"""

import contextlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

_Result = TypeVar("_Result")


def known_length(length: Any) -> int | None:
    """Returns a length as an int if it holds whenever the graph that may be traced now runs, or else None."""
    if type(length) is int:
        # TorchDynamo shows sizes that it may make dynamic as plain ints.
        return None if torch_is_tracing(any_size=False) else length
    seen = visible(length)
    return None if seen is None else int(seen)


def visible(value: Any) -> npt.NDArray[Any] | None:
    """Returns the numbers of an array or tensor, or None where a graph is traced and they will be others."""
    if torch_is_tracing(any_size=False):  # TorchDynamo would trace NumPy as well
        return None
    if isinstance(value, (int, np.ndarray, np.generic)):
        return np.asarray(value)
    if isinstance(value, keras.KerasTensor) or not ops.is_tensor(value):
        return None
    backend = keras.config.backend()
    if backend == "jax":
        import jax

        return None if isinstance(value, jax.core.Tracer) else np.asarray(value)
    if backend == "torch":
        return _visible_in_torch(value)
    return np.asarray(value) if hasattr(value, "numpy") else None


def count_up(length: Any) -> Any:
    """Returns `0, 1, ..., length - 1` as int32."""
    if keras.config.backend() == "jax":
        import jax

        # Keras' export to ONNX on JAX takes no other of a length that is not known.
        return jax.lax.iota("int32", length)
    return ops.arange(length, dtype="int32")


def align_dtypes(*tensors: Any) -> tuple[Any, ...]:
    """Returns tensors that broadcast, of one rank if JAX is configured to warn of or to refuse other ranks."""
    if keras.config.backend() != "jax" or sys.modules["jax"].config.jax_numpy_rank_promotion == "allow":
        return tensors
    rank = max(len(each.shape) for each in tensors)
    return tuple(ops.expand_dims(each, tuple(range(rank - len(each.shape)))) for each in tensors)


def quotients(numbers: Any, divisor: Any) -> Any:
    """Returns the whole quotients of int32 numbers of at least 0 by one of at least 1: an int or an int32 scalar."""
    backend = keras.config.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.truncatediv(numbers, divisor)  # ONNX has no other division of integers
    if backend == "jax":
        import jax

        return jax.lax.div(numbers, jax.numpy.full_like(numbers, divisor))
    return numbers // divisor  # Keras' function makes a tensor of a size, which TorchDynamo refuses.


def is_eager() -> bool:
    """Whether TensorFlow or PyTorch answer a call now, and trace no graph that other calls will run."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return bool(tf.executing_eagerly())
    return keras.config.backend() == "torch" and not torch_is_tracing()


def compiled_by_xla() -> bool:
    """Whether XLA compiles what is computed now, as all that JAX computes."""
    if keras.config.backend() == "tensorflow":
        import tensorflow as tf

        return bool(tf.__internal__.get_enclosing_xla_context())
    return bool(keras.config.backend() == "jax")


def outside_of_traces(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Returns the function as one that TorchDynamo calls; tracing it would replace NumPy by PyTorch."""
    if keras.config.backend() != "torch":
        return function
    import torch

    disable: Callable[[Callable[..., _Result]], Callable[..., _Result]] = torch.compiler.disable  # it has no types
    return disable(function)


def at_trace_time(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Returns the function as one that TorchDynamo calls while it traces; its result is a constant of the graph."""
    if keras.config.backend() != "torch":
        return function
    import torch

    constant: Callable[[Callable[..., _Result]], Callable[..., _Result]] = torch.compiler.assume_constant_result
    return constant(function)


def choose(condition: Any, special: Callable[[], Any], general: Callable[[], Any], *, of_one: bool = False) -> Any:
    """Returns what `special` does where the condition holds, and is cheaper than `general`, which holds everywhere.

    If the condition is known, one of them runs. A graph of TensorFlow decides when it runs, except for one position,
    for which a decision costs more than it saves. Other graphs take the general one.
    """
    seen = visible(condition)
    if seen is not None:
        return special() if seen else general()
    if keras.config.backend() == "tensorflow" and not of_one:
        return ops.cond(condition, special, general)
    return general()


def _visible_in_torch(value: Any) -> npt.NDArray[Any] | None:
    import torch

    if torch_is_tracing() or type(value) not in (torch.Tensor, torch.nn.Parameter) or value.is_meta:
        return None
    with contextlib.suppress(RuntimeError):  # torch.func.vmap passes objects that look like tensors and have no numbers
        value = value.detach().cpu()
        seen: npt.NDArray[Any] = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        return seen
    return None


def dynamo_is_tracing() -> bool:
    """Whether TorchDynamo traces now, as `torch.compile` does."""
    return keras.config.backend() == "torch" and bool(sys.modules["torch"].compiler.is_dynamo_compiling())


def torch_is_tracing(any_size: bool = True) -> bool:
    """Whether PyTorch traces now; with `any_size` false, only where even a plain int may change with the inputs."""
    if keras.config.backend() != "torch":
        return False
    torch = sys.modules["torch"]
    if dynamo_is_tracing() or torch.jit.is_tracing():
        return True
    return bool(any_size and torch.compiler.is_compiling())
