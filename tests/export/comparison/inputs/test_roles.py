"""The role of an input is inferred from the layers that read it, in any kind of model."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import pytest
from keras import ops

import keras_pe
from keras_pe.export.comparison.inputs.borders import Borders
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.comparison.references.keras import KerasReference


def test_the_vocabulary_of_each_input_is_that_of_its_own_embedding():
    tokens, kinds = (
        keras.Input((None,), dtype="int32", name="tokens"),
        keras.Input((None,), dtype="int32", name="kinds"),
    )
    x = keras.layers.Embedding(50, 4)(tokens) + keras.layers.Embedding(2, 4)(kinds)
    reference = KerasReference(keras.Model([tokens, kinds], x))
    assert reference.roles == {"tokens": Role("ids", 0, 50), "kinds": Role("ids", 0, 2)}


@pytest.mark.slow
def test_positions_and_starts_are_told_from_other_integers():
    x, p, r, c, s, n = (
        keras.Input((None, 8), name="x"),
        keras.Input((None,), dtype="int32", name="p"),
        keras.Input((None,), dtype="int32", name="r"),
        keras.Input((None,), dtype="int32", name="c"),
        keras.Input((), dtype="int32", name="s"),
        keras.Input((None,), dtype="int32", name="n"),
    )
    y = keras_pe.SinusoidalPositionEncoding()(x, positions=p)
    y = keras_pe.SinusoidalPositionEncoding(max_length=300)(y, start_index=s)
    y = y + keras.ops.expand_dims(keras.ops.cast(n, "float32"), -1)
    bias = keras_pe.GridPositionBias(2, (3, 40))(x, positions=[r, c])
    reference = KerasReference(keras.Model([x, p, r, c, s, n], [y, bias]))
    known = {name: role for name, role in reference.roles.items() if role.role != "values"}
    assert known == {
        "p": Role("positions", -(2**24), 2**24),
        "r": Role("positions", 0, 3),
        "c": Role("positions", 0, 40),
        "s": Role("start", 0, 300),
    }


def test_ids_of_two_tables_are_fair_for_both():
    ids = keras.Input((None,), dtype="int32", name="ids")
    both = [keras.layers.Embedding(rows, 4)(ids) for rows in (30, 20)]
    assert KerasReference(keras.Model(ids, both)).roles == {"ids": Role("ids", 0, 20)}


def test_an_embedding_deep_in_a_subclassed_model_is_found():
    class Tagger(keras.Model):
        def __init__(self):
            super().__init__()
            self.body = keras.Sequential([keras.layers.Embedding(30, 4), keras.layers.Dense(2)])

        def call(self, tokens):
            return self.body(tokens)

    model = Tagger()
    model(keras.ops.zeros((1, 3), "int32"))
    reference = KerasReference(model, [keras.InputSpec(shape=(None, None), dtype="int32")])
    assert list(reference.roles.values()) == [Role("ids", 0, 30)]


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize(
    ("function", "role"),
    [
        (lambda table, places: table + ops.cast(places, "float32"), Role("values", is_wide=True)),
        (lambda table, places: ops.take_along_axis(table, places, 1), Role("values", 0, 4)),
        (lambda table, places: keras.layers.CategoryEncoding(100, output_mode="count")(places), Role("values", 0, 128)),
        (lambda table, places: ops.bincount(places, minlength=6), Role("values", 0, 128)),
        (lambda table, places: ops.segment_sum(table, places[:, 0], num_segments=4), Role("values", 0, 4)),
    ],
    ids=["any", "places", "categories", "counts", "segments"],
)
def test_integers_that_the_model_refuses_are_not_drawn(function: Callable[..., Any], role: Role) -> None:
    table, places = keras.Input((6,), name="table"), keras.Input((6,), dtype="int32", name="places")
    reference = KerasReference(keras.Model([table, places], function(table, places)))
    assert replace(reference.roles["places"], borders=Borders()) == role


class Messages(keras.layers.Layer):
    """Adds up along the edges of a graph what stands in its nodes."""

    def call(self, nodes: Any, edges: Any) -> Any:
        sent = ops.take(nodes, edges[:, 0], axis=0)
        return ops.segment_sum(sent, edges[:, 1], num_segments=ops.shape(nodes)[0])

    def compute_output_shape(self, nodes_shape: Any, edges_shape: Any) -> Any:
        return nodes_shape


def test_an_index_into_another_input_ends_with_it() -> None:
    nodes, edges = keras.Input((4,), name="nodes"), keras.Input((2,), dtype="int32", name="edges")
    reference = KerasReference(keras.Model([nodes, edges], Messages()(nodes, edges)))
    dimension = next(spec.shape[0] for spec in reference.inputs if spec.name == "nodes")
    assert reference.roles == {"edges": Role("values", 0, below=dimension)}


def test_inputs_of_one_shape_are_told_apart_where_the_model_casts_them():
    x = keras.Input((None, 8), name="x")
    scalars = [keras.Input((), dtype="int32", name=f"number_{i}") for i in range(5)]
    start = keras.ops.cast(scalars[3], "int64")  # another tensor, recognized by its values alone
    y = keras_pe.SinusoidalPositionEncoding(max_length=300)(x, start_index=start)
    for scalar in scalars:
        y = y * keras.ops.reshape(keras.ops.cast(scalar, "float32"), (-1, 1, 1))
    reference = KerasReference(keras.Model([x, *scalars], y))
    known = {name: role for name, role in reference.roles.items() if role.role != "values"}
    assert known == {"number_3": Role("start", 0, 300)}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("order", [*itertools.permutations(("price", "user", "item"))], ids="-".join)
def test_a_price_is_no_row_of_a_table_though_a_lookup_returns_the_same_number(order: tuple[str, ...]) -> None:
    inputs = {name: keras.Input((1,), dtype="float32" if name == "price" else "int32", name=name) for name in order}
    found = keras.layers.IntegerLookup(vocabulary=list(range(1, 21)))(inputs["user"])
    tables = keras.layers.Embedding(22, 4)(found), keras.layers.Embedding(50, 4)(inputs["item"])
    price = keras.layers.Dense(3, "tanh")(inputs["price"])
    roles = KerasReference(keras.Model(inputs, [*tables, price])).roles
    assert {name: role.role for name, role in roles.items()} == {"user": "entries", "item": "ids"}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(
    ("computed", "is_row"),
    [
        (lambda x: ops.cast(x, "int64"), True),
        (lambda x: ops.reshape(ops.cast(x, "int32"), (-1,)), False),
        (lambda x: ops.mod(x, 4), False),
        (lambda x: ops.abs(x), False),
        (lambda x: ops.clip(x, 0, 1), False),
        (lambda x: ops.cast(x > 0, "int32"), False),
        (lambda x: ops.zeros_like(x), False),
    ],
    ids=["cast", "reshaped", "remainder", "absolute", "clipped", "compared", "constant"],
)
def test_an_input_that_another_number_is_computed_of_is_no_row_of_a_table(
    computed: Callable[[Any], Any], is_row: bool
) -> None:
    x = keras.Input((1,), dtype="int32", name="x")
    reference = KerasReference(keras.Model(x, keras.layers.Embedding(4, 2)(computed(x))))
    role = reference.roles.get("x", Role("values"))
    assert (role.role == "ids") is is_row
