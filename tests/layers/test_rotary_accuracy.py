"""Rotations are exact at every distance in every form in which a backend runs them."""

import os
import shutil
from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import ops

from keras_pe import RotaryPositionEncoding
from tests.layers.rotated import CHANNELS, POSITIONS, UNITS, check_rotated

Rotate = Callable[[Any, Any], Any]


def _graph(rotate: Rotate, **arguments: Any) -> Rotate:
    import tensorflow as tf

    dtype = rotate.__self__.compute_dtype  # type: ignore[attr-defined]
    specs = [tf.TensorSpec((None, None, None, CHANNELS), dtype), tf.TensorSpec((None, None), "int32")]
    return tf.function(rotate, input_signature=specs, **arguments)


def _jit(rotate: Rotate) -> Rotate:
    import jax

    return jax.jit(rotate)


def _compile(rotate: Rotate) -> Rotate:
    import torch

    return torch.compile(rotate, dynamic=True, backend="aot_eager")


def _generate(rotate: Rotate) -> Rotate:
    """Returns what is compiled to machine code, whose products and sums may be fused."""
    import torch

    if not shutil.which(os.environ.get("CXX", "g++")):
        pytest.skip("Inductor needs a C++ compiler.")
    return torch.compile(rotate, dynamic=True, backend="inductor")


def _export(rotate: Rotate) -> Rotate:
    import torch

    class Module(torch.nn.Module):
        def forward(self, x: Any, positions: Any) -> Any:
            return rotate(x, positions)

    def run(x: Any, positions: Any) -> Any:
        length = torch.export.Dim("length")
        sizes = ({1: length}, {1: length})
        short = x[:, :7], positions[:, :7]
        return torch.export.export(Module(), short, dynamic_shapes=sizes).module()(x, positions)

    return run


FORMS: dict[str, dict[str, Callable[[Rotate], Rotate]]] = {
    "tensorflow": {"eager": lambda call: call, "graph": _graph, "XLA": lambda call: _graph(call, jit_compile=True)},
    "jax": {"eager": lambda call: call, "jit": _jit},
    "torch": {"eager": lambda call: call, "compile": _compile, "inductor": _generate, "export": _export},
}


class Rotation:
    """A rotary layer at given positions."""

    def __init__(self, dtype: str) -> None:
        self.layer = RotaryPositionEncoding(base=5e5, dtype=dtype)
        self.compute_dtype = self.layer.compute_dtype
        self.layer.build((None, None, None, CHANNELS))

    def __call__(self, x: Any, positions: Any) -> Any:
        return self.layer(x, positions=positions)

    def call(self, x: Any, positions: Any) -> Any:
        return self(x, positions)


@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=[pytest.mark.slow] * (form != "eager")) for form in FORMS[keras.backend.backend()]],
)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch's own compiler uses it
def test_rotations_are_exact_at_positions_to_two_to_the_24(dtype: str, form: str) -> None:
    rotation = Rotation(dtype)
    rotate = FORMS[keras.backend.backend()][form](rotation.call)
    x = ops.convert_to_tensor(UNITS, dtype=rotation.compute_dtype)
    turned = rotate(x, ops.convert_to_tensor(POSITIONS))
    assert keras.backend.standardize_dtype(turned.dtype) == rotation.compute_dtype
    check_rotated(ops.convert_to_numpy(ops.cast(turned, "float32")), rotation.compute_dtype)
