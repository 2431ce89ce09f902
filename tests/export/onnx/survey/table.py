"""The whole table: every callable of `keras.ops`, `keras.activations` and `keras.layers`."""

from keras import activations

from tests.export.onnx.survey import (
    algebra,
    arrays,
    control,
    creation,
    elementwise,
    extremes,
    images,
    layers,
    networks,
    reductions,
)
from tests.export.onnx.survey.case import op
from tests.export.onnx.survey.values import REAL

# The first word of a row's name is the callable's, the others tell its rows apart.
OPS = {
    **elementwise.ELEMENTWISE,
    **reductions.REDUCTIONS,
    **arrays.SHAPING,
    **creation.CREATION,
    **algebra.PRODUCTS,
    **networks.NN,
    **control.CONTROL,
    **images.IMAGE,
    **extremes.EXTREMES,
}
_NAMED = [name for name in dir(activations) if not name.startswith("_") and callable(getattr(activations, name))]
_OPTIONS = {"threshold": {"threshold": 0.5, "default_value": -1.0}}
ACTIVATIONS = {
    name: op(getattr(activations, name), REAL, **_OPTIONS.get(name, {}))
    for name in _NAMED
    if name not in ("deserialize", "get", "serialize")
}
LAYERS = layers.LAYERS
ROWS = OPS | {f"activations.{name}": case for name, case in ACTIVATIONS.items()} | LAYERS

# No tensors go in, or none come out; and two that Keras fails to run on TensorFlow.
NO_OPS = {"convert_to_numpy", "dtype", "is_tensor", "lu_factor", "vectorize"}
NO_LAYERS = layers.UNCALLED
