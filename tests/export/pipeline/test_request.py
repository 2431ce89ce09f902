"""The signature of an export follows from the arguments of the exporter."""

from typing import Any

import keras
import pytest

from keras_pe.export import Border
from keras_pe.export.model.signature.fixed_sizes import Origin
from keras_pe.export.pipeline.request import Request

FREE = keras.InputSpec(shape=(None, None, 4), dtype="float32")


def doubling() -> keras.Model:
    x = keras.Input((None, 4), name="x")
    return keras.Model(x, keras.layers.UpSampling1D(2, name="y")(x))


@pytest.mark.parametrize(
    ("given", "shape", "fixed"),
    [
        ({"sizes": {"length": [6]}}, ("batch", 6, 4), {"length": 6}),
        ({"sizes": {"length": 6, "batch": (3,)}}, (3, 6, 4), {"length": 6, "batch": 3}),
        ({"sizes": {"batch": 3}}, (3, "length", 4), {"batch": 3}),
        ({"sizes": {"length": 6}, "border": Border(batch=3)}, (3, 6, 4), {"length": 6}),
        ({"sizes": {"length": (6, 8)}}, ("batch", "length", 4), {}),
        ({"sizes": {"length": 6}, "input_signature": FREE}, ("batch", "length", 4), {}),
    ],
)
def test_one_size_fixes_a_dimension_that_no_input_signature_has_free(
    given: dict[str, Any], shape: Any, fixed: dict[str, int]
) -> None:
    request = Request(doubling(), "model.tflite", **given).open_model()
    signature = request.signature_of(request.model, request.input_signature)
    assert signature.inputs[0].shape == shape
    known = () if signature.fixed_sizes is None else signature.fixed_sizes.sizes
    assert {each.name: each.size for each in known} == fixed
    assert all(each.origin == Origin.GIVEN for each in known)
    if "length" in fixed:
        assert signature.outputs[0].shape == (shape[0], 12, 4)
