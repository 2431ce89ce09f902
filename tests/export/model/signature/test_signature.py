"""A signature passes arrays by name to a model's call, and names its results."""

from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export.model.signature.model_signature import model_signature


def test_pack_and_unpack_are_what_the_model_takes_and_returns() -> None:
    inputs = {name: keras.Input((2,), name=name) for name in ("zeta", "alpha")}
    model = keras.Model(inputs, [inputs["zeta"] * 2.0, {"sum": inputs["zeta"] + inputs["alpha"]}])
    signature = model_signature(model)
    arrays = {"alpha": np.ones((1, 2), "float32"), "zeta": np.full((1, 2), 3.0, "float32")}
    results = signature.unpack(model(*signature.pack(arrays)))
    assert [float(x[0, 0]) for x in results.values()] == [6.0, 4.0]
    assert list(results) == [spec.name for spec in signature.outputs]


def test_pack_refuses_a_missing_or_an_unknown_name() -> None:
    signature = model_signature(keras.Sequential([keras.Input((2,), name="values"), keras.layers.Dense(1)]))
    with pytest.raises(ValueError, match=r"must have the names values\. Received: other"):
        signature.pack({"other": 0})


def test_unpack_refuses_another_structure() -> None:
    inputs = keras.Input((2,), name="values")
    signature = model_signature(keras.Model(inputs, [inputs * 1.0, inputs * 2.0]))
    with pytest.raises(ValueError, match="The structure must be"):
        signature.unpack([np.zeros((1, 2))])


def test_a_subclassed_model_may_declare_its_one_input_in_a_list() -> None:
    class Summed(keras.Model):
        def call(self, tokens: Any) -> Any:
            return keras.ops.sum(self.embedding(tokens), axis=1)

        def __init__(self) -> None:
            super().__init__()
            self.embedding = keras.layers.Embedding(5, 3)
            self.input_spec = [keras.InputSpec(shape=(None, None), dtype="int32")]

    model = Summed()
    model(np.zeros((2, 4), "int32"))
    signature = model_signature(model)
    assert [spec.name for spec in signature.inputs] == ["tokens"]
    assert signature.outputs[0].shape == ("batch", 3)
