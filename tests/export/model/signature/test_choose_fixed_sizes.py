"""The value of a fixed size comes from the caller, an example, an earlier call, or the model's own limits."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe.export import model_signature
from keras_pe.export.model.signature.choose_fixed_sizes import names_to_fix, sizes_to_fix, with_fixed_sizes
from keras_pe.export.model.signature.fixed_sizes import Origin


class Doubling(keras.Model):
    def call(self, x: Any) -> Any:
        return ops.concatenate([x, x], axis=1)


def build_by_call() -> keras.Model:
    model = Doubling()
    model(np.zeros((2, 9, 4), "float32"))
    return model


def functional() -> keras.Model:
    x = keras.Input((None, 4), name="x")
    return keras.Model(x, keras.layers.UpSampling1D(2, name="y")(x))


EXAMPLES = [{"x": np.zeros((2, length, 4), "float32")} for length in (7, 5)]


@pytest.mark.parametrize(
    ("model", "given", "sizes"),
    [
        (functional, {}, {"batch": (1, Origin.LEAST), "length": (11, Origin.FIRST)}),
        (build_by_call, {}, {"batch": (2, Origin.CALLED), "length": (9, Origin.CALLED)}),
        (build_by_call, {"sizes": {"length": (16,)}}, {"batch": (2, Origin.CALLED), "length": (16, Origin.GIVEN)}),
        (build_by_call, {"sizes": {"length": (16, 32)}}, {"batch": (2, Origin.CALLED)}),
        (build_by_call, {"inputs": EXAMPLES[:1]}, {"batch": (2, Origin.EXAMPLE), "length": (7, Origin.EXAMPLE)}),
        (build_by_call, {"inputs": EXAMPLES}, {"batch": (2, Origin.EXAMPLE)}),
    ],
)
def test_a_size_is_given_shown_called_or_taken_and_none_if_several_are_asked_for(
    model: Any, given: dict[str, Any], sizes: dict[str, tuple[int, Origin]]
) -> None:
    model = model()
    found = sizes_to_fix(model, model_signature(model, **given))
    assert {name: (each.size, each.origin) for name, each in found.items()} == sizes


def test_a_fixed_length_leaves_the_batch_free_and_is_measured_in_the_outputs() -> None:
    model = functional()
    signature = model_signature(model)
    fixed = with_fixed_sizes(model, signature, [sizes_to_fix(model, signature)["length"]], "Keras cannot trace it.")
    assert [spec.shape for spec in (*fixed.inputs, *fixed.outputs)] == [("batch", 11, 4), ("batch", 22, 4)]
    assert list(fixed.dimensions) == ["batch"]
    assert fixed.fixed_sizes is not None
    assert fixed.fixed_sizes.by_name == {"length": 11}
    assert "length 11 only" in fixed.notes()[0]


@pytest.mark.parametrize("needed", [{"length"}, {"length", "batch"}, {"batch"}, {"length_2"}, {"length", "length_2"}])
def test_no_more_dimensions_are_fixed_than_a_trace_needs(needed: set[str]) -> None:
    query, memory = keras.Input((None, 4), name="query"), keras.Input((None, 4), name="memory")
    attended = keras.layers.Attention()([query, memory])
    signature = model_signature(keras.Model([query, memory], attended))
    assert names_to_fix(signature, lambda names: needed <= {*names}) == needed
    assert names_to_fix(signature, lambda names: False) == set()
