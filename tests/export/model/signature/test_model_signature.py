"""Inputs and outputs of a model are inferred without a call of the model."""

import keras
import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.model.signature.signature import Signature


def _shapes(signature: Signature) -> list[tuple[str, tuple[int | str, ...], str]]:
    return [(spec.name, spec.shape, spec.dtype) for spec in (*signature.inputs, *signature.outputs)]


class Gated(keras.Model):
    """A subclassed model with two arguments and nested outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(3)

    def call(self, values: object, gate: object = None) -> object:
        projected = self.dense(values)
        return projected if gate is None else {"main": projected, "gates": (gate,)}


def test_a_sequential_model_that_was_never_called_has_a_signature() -> None:
    model = keras.Sequential([keras.Input((None, 8), name="values"), keras.layers.Dense(3, name="project")])
    assert _shapes(model_signature(model)) == [
        ("values", ("batch", "length", 8), "float32"),
        ("project", ("batch", "length", 3), "float32"),
    ]


def test_a_sequential_model_whose_results_keras_cannot_tell_has_the_inputs_that_it_was_built_with() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x.numpy() * 2)])
    assert [spec.shape for spec in model_signature(model).inputs] == [("batch", 4)]


def test_inputs_of_one_length_share_its_name_and_others_do_not() -> None:
    source, target = (
        keras.Input((None,), dtype="int32", name="source"),
        keras.Input((None,), dtype="int32", name="target"),
    )
    mask = keras.Input((None,), dtype="bool", name="mask")
    embed = keras.layers.Embedding(9, 4, name="embed")
    attend = keras.layers.MultiHeadAttention(1, 4, name="attend")
    outputs = attend(embed(target), embed(source), attention_mask=mask[:, None, :])
    signature = model_signature(keras.Model([source, mask, target], outputs))
    assert [spec.shape for spec in signature.inputs] == [
        ("batch", "length"),
        ("batch", "length"),
        ("batch", "length_2"),
    ]
    assert signature.outputs[0].shape == ("batch", "length_2", 4)


def test_a_length_that_the_model_changes_gets_a_name_of_its_own() -> None:
    inputs = keras.Input((None, 4), name="values")
    model = keras.Model(inputs, keras.layers.AveragePooling1D(2, name="pool")(inputs))
    assert model_signature(model).outputs[0].shape == ("batch", "pool_axis_1", 4)


def test_scalars_and_fixed_batches_stay_what_they_are() -> None:
    values = keras.Input(batch_shape=(4, 5, 2), name="values")
    start = keras.Input(batch_shape=(), dtype="int32", name="start")
    model = keras.Model([values, start], values + keras.ops.cast(start, "float32"))
    assert [spec.shape for spec in model_signature(model).inputs] == [(4, 5, 2), ()]


def test_dict_keys_and_their_order_are_kept_in_and_out() -> None:
    inputs = {name: keras.Input((2,), name=name) for name in ("zeta", "alpha")}
    outputs = {"second": inputs["zeta"] * 2.0, "first": inputs["alpha"] + 1.0}
    signature = model_signature(keras.Model(inputs, outputs))
    assert [spec.name for spec in signature.inputs] == ["zeta", "alpha"]
    assert [spec.name for spec in signature.outputs] == ["second", "first"]


def test_names_that_no_format_takes_are_replaced_and_remembered() -> None:
    inputs = keras.Input((2,), name="my tokens:0")
    signature = model_signature(keras.Model(inputs, keras.layers.Dense(1, name="2nd out")(inputs)))
    assert signature.renamed == {"my_tokens_0": "my tokens:0", "arg_2nd_out": "2nd out"}


def test_an_input_that_is_passed_through_and_a_tensor_returned_twice_have_names_of_their_own() -> None:
    inputs = keras.Input((2,), name="values")
    outputs = keras.layers.Dense(1, name="dense")(inputs)
    names = [spec.name for spec in model_signature(keras.Model(inputs, [outputs, inputs, outputs])).outputs]
    assert names == ["dense", "values_1", "dense_1"]


@pytest.mark.parametrize("as_list", [True, False])
def test_a_subclassed_model_takes_a_keras_signature(as_list: bool) -> None:
    model = Gated()
    model(np.zeros((2, 8), "float32"))
    spec = keras.InputSpec(shape=(None, 8), dtype="float32")
    signature = model_signature(model, [spec] if as_list else spec)
    assert _shapes(signature) == [("values", ("batch", 8), "float32"), ("output", ("batch", 3), "float32")]


def test_named_dimensions_of_the_caller_are_kept() -> None:
    model = Gated()
    model(np.zeros((2, 8), "float32"))
    given = [TensorInfo("tokens", ("batch", "words", 8), "float32"), TensorInfo("gate", ("batch", "n"), "float32")]
    signature = model_signature(model, given)
    assert signature.inputs == tuple(given)
    assert [spec.name for spec in signature.outputs] == ["main", "gates_0"]
    assert [spec.shape for spec in signature.outputs] == [("batch", "words", 3), ("batch", "n")]


def test_the_search_for_dimensions_leaves_the_state_of_the_model_alone() -> None:
    class Counter(keras.layers.Layer):
        def build(self, shape: object) -> None:
            self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: object) -> object:
            self.count.assign_add(1.0)
            return x

    model = keras.Sequential([keras.Input((2,)), Counter()])
    before = float(model.layers[0].count.value)
    model_signature(model)
    assert float(model.layers[0].count.value) == before


def test_a_model_without_weights_is_refused() -> None:
    with pytest.raises(ValueError, match="must be built"):
        model_signature(keras.Sequential([keras.layers.Dense(1)]))


def test_a_model_that_fails_on_every_shape_says_why() -> None:
    model = Gated()
    model(np.zeros((2, 8), "float32"))
    with pytest.raises(ValueError, match="cannot be called on zeros of the shapes values"):
        model_signature(model, keras.InputSpec(shape=(None, 9), dtype="float32"))


def test_an_object_that_is_not_a_model_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`model` must be a keras\.Model"):
        model_signature(keras.layers.Dense(1))


def test_values_are_given_by_the_models_names_or_by_those_of_artifacts() -> None:
    values, weights = keras.Input((None,), name="my values"), keras.Input((None,), name="w:0")
    model = keras.Model([values, weights], values * weights)
    array = np.ones((2, 5), "float32")
    for first, second in (("my values", "w:0"), ("my_values", "w_0")):
        told = model_signature(model, inputs=[{first: array, second: array}], ranges={first: (1, 2)}).values
        assert told.examples[0].keys() == {"my_values", "w_0"}
        assert told.ranges == {"my_values": (1, 2)}
