"""What is certain while a layer is called: sizes and values that no trace will change, and tables as tensors.

Keras runs a layer eagerly, traces it, compiles it and exports it, on three backends. A Python condition on something
that a trace only saw once is frozen into the graph, and wrong at the next size: what is not certain must be computed.
"""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops


def known_length(length: Any) -> int | None:
    """Returns a length as an int if it holds whenever the graph that may be traced now runs, or else None."""
    if type(length) is int:
        # TorchDynamo shows sizes that it may make dynamic as plain ints.
        return None if _torch_is_tracing(any_size=False) else length
    seen = visible(length)
    return None if seen is None else int(seen)


def visible(value: Any) -> npt.NDArray[Any] | None:
    """Returns the numbers of an array or tensor, or None where a graph is traced and they will be others."""
    if _torch_is_tracing(any_size=False):  # TorchDynamo would trace NumPy as well
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


def choose(condition: Any, special: Callable[[], Any], general: Callable[[], Any]) -> Any:
    """Returns what `special` does where the condition holds, and is cheaper than `general`, which holds everywhere.

    Where the condition can be seen, one of them runs; a graph of TensorFlow decides when it runs; others take the
    general one.
    """
    seen = visible(condition)
    if seen is not None:
        return special() if seen else general()
    if keras.config.backend() == "tensorflow":
        return ops.cond(condition, special, general)
    return general()


class Table:
    """Rows of numbers that never change, and the tensors made of them: one for a device, and one for each graph.

    An eager tensor must not enter a graph of TensorFlow: there it would be a further input, which an export asks for.
    """

    def __init__(self, rows: npt.NDArray[Any]) -> None:
        self.rows = rows
        self._tensors: dict[Any, Any] = {}
        # TorchDynamo would trace the conversion of an array, but takes a tensor as it is.
        self._host = _torch_tensor(rows) if keras.config.backend() == "torch" else None

    def tensor(self) -> Any:
        """Returns the rows as a tensor of the backend."""
        backend = keras.config.backend()
        if backend == "tensorflow":
            return self._tensor_of_tensorflow()
        if backend == "torch":
            return self._tensor_of_torch()
        return ops.convert_to_tensor(self.rows)

    def _tensor_of_tensorflow(self) -> Any:
        import tensorflow as tf

        if tf.executing_eagerly():
            if not self._tensors:
                self._tensors["eager"] = tf.constant(self.rows)
            return self._tensors["eager"]
        graph = tf.compat.v1.get_default_graph()
        while type(graph).__name__ == "CondBranchFuncGraph":  # both branches take what the graph around them has
            graph = graph.outer_graph
        # Equal layers share a table, and so its constant. It lives as long as the graph.
        if not hasattr(graph, "keras_pe_tables"):
            graph.keras_pe_tables = {}
        if self not in graph.keras_pe_tables:
            with graph.as_default(), tf.control_dependencies(None):
                graph.keras_pe_tables[self] = tf.constant(self.rows)
        return graph.keras_pe_tables[self]

    def _tensor_of_torch(self) -> Any:
        if _torch_is_tracing():
            return ops.convert_to_tensor(self._host)
        device = ops.convert_to_tensor(0).device
        if device not in self._tensors:
            self._tensors[device] = ops.convert_to_tensor(self._host)
        return self._tensors[device]


def _torch_tensor(rows: npt.NDArray[Any]) -> Any:
    import torch

    with torch.inference_mode(False):  # what is made in inference mode cannot be trained through
        return torch.from_numpy(rows)


def _visible_in_torch(value: Any) -> npt.NDArray[Any] | None:
    import torch

    if _torch_is_tracing() or type(value) not in (torch.Tensor, torch.nn.Parameter) or value.is_meta:
        return None
    with contextlib.suppress(RuntimeError):  # what torch.func.vmap hands over looks like a tensor, and has no numbers
        value = value.detach().cpu()
        seen: npt.NDArray[Any] = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
        return seen
    return None


def _torch_is_tracing(any_size: bool = True) -> bool:
    """Whether PyTorch traces now; with `any_size` false, only where even a plain int may change with the inputs."""
    if keras.config.backend() != "torch":
        return False
    torch = sys.modules["torch"]
    if torch.compiler.is_dynamo_compiling() or torch.jit.is_tracing():
        return True
    return bool(any_size and torch.compiler.is_compiling())
