"""Faults within an artifact that returns its outputs alone are named if a changed model gives these outputs."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as L  # noqa: N812

import keras_pe
from tests.export.parity.diagnosis.changes import seeded
from tests.export.parity.diagnosis.planted import Closed, findings


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("at_fault", [("first",), ("second",), ("first", "second")], ids=" and ".join)
def test_a_normalization_by_the_batch_is_named_with_its_layer(at_fault):
    x = keras.Input((4,), name="x")
    parts = [L.Dense(5, name="mix"), L.BatchNormalization(name="first"), L.Activation("tanh", name="bend")]
    parts += [L.BatchNormalization(name="second"), L.Dense(3, name="y")]
    model = seeded(keras.Sequential([x, *parts]))

    def wrong(inputs):
        values, kept = inputs["x"], model.get_weights()
        for part in parts:
            values = part(values, training=True) if part.name in at_fault else part(values)
        model.set_weights(kept)
        return values

    (finding,) = findings(model, wrong, Closed)
    assert (finding.cause, finding.layer) == ("training mode", at_fault[0] if len(at_fault) == 1 else None)
    assert ", ".join(map(repr, at_fault)) in f"{finding.layer!r} {finding.evidence}"


def _tokens(*, mask_zero: bool = True, start_index: int = 0, layout: str = "concatenated") -> keras.Model:
    x = keras.Input((None,), dtype="int32", name="x")
    y = L.Embedding(7, 6, mask_zero=mask_zero, name="words")(x)
    y = keras_pe.SinusoidalPositionEncoding(start_index=start_index, layout=layout, name="positions")(y)
    y = L.MultiHeadAttention(2, 3, name="attention")(y, y)
    return keras.Model(x, L.Dense(3, name="y")(L.GlobalAveragePooling1D(name="mean")(y)))


def _image(*, padding: str = "same", activation: str = "tanh", epsilon: float = 1e-3) -> keras.Model:
    x = keras.Input((6, 6, 2), name="x")
    y = L.Conv2D(4, 3, padding="same", activation=activation, name="edges")(x)
    y = L.LayerNormalization(epsilon=epsilon, name="even")(y)
    y = L.MaxPooling2D(2, padding=padding, strides=1, name="largest")(y)
    y = L.GlobalAveragePooling2D(name="mean")(y)
    return keras.Model(x, L.Dense(3, name="y")(y))


def _residual(*, begin: str = "first", again: bool = False) -> keras.Model:
    x = keras.Input((6,), name="x")
    stem = L.Dense(6, name="stem")(x)
    first = L.Activation("sigmoid", name="first")(stem)
    second = L.Dense(6, "tanh", name="second")(L.Activation("sigmoid", name="again")(first) if again else first)
    skip = {"stem": stem, "first": first, "second": second}[begin]
    joined = L.Add(name="join")([skip, L.Dense(6, "tanh", name="third")(second)])
    return keras.Model(x, L.Dense(3, name="y")(joined))


def _stride_model(*, strides: tuple[int, int] = (2, 2), padding: str = "valid", border: Any = 1) -> keras.Model:
    x = keras.Input((9, 9, 2), name="x")
    y = L.ZeroPadding2D(border, name="border")(x)
    y = L.Conv2D(4, 3, strides=strides, padding=padding, activation="tanh", name="edges")(y)
    return keras.Model(x, L.Dense(3, name="y")(L.GlobalAveragePooling2D(name="mean")(y)))


@pytest.mark.slow_rows(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "change", "cause", "layer"),
    [
        (_residual, {"again": True}, "operation added", "first"),
        (_residual, {"begin": "stem"}, "other input", "join"),
        (_residual, {"begin": "second"}, "other input", "join"),
        (_stride_model, {"strides": (2, 1)}, "other strides", "edges"),
        (_stride_model, {"strides": (1, 1), "padding": "same"}, "other strides and padding", "edges"),
        (_stride_model, {"border": ((1, 1), (0, 2))}, "other padding", "border"),
        (_stride_model, {"border": 3}, "other padding", "border"),
        (_tokens, {"mask_zero": False}, "dropped mask", None),
        (_tokens, {"start_index": 2}, "start index off", "positions"),
        (_tokens, {"layout": "interleaved"}, "wrong layout", "positions"),
        (_image, {"padding": "valid"}, "other padding", "largest"),
        (_image, {"activation": "relu"}, "other activation", "edges"),
        (_image, {"epsilon": 0.1}, "other epsilon", "even"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_the_change_of_one_layer_is_named_by_the_outputs_alone(
    build: Callable[..., keras.Model], change: dict[str, Any], cause: str, layer: str | None
) -> None:
    model, changed = seeded(build()), build(**change)
    changed.set_weights(model.get_weights())
    (finding,) = findings(model, lambda inputs: np.asarray(changed(inputs["x"])), Closed)
    assert (finding.cause, finding.layer) == (cause, layer), finding
