"""Tables of positions end: the sizes that a model takes end with them, as Keras itself does."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import LearnedPositionEmbedding
from keras_pe.export import UnknownSizesError, model_signature
from keras_pe.export.model.sizes.dimensions import SizeRange

ROWS = 400  # more than the search looks ahead where there are no tables


class Table(keras.layers.Layer):
    """Adds rows of a table to its inputs, cut like a user would."""

    def __init__(self, rows: int = ROWS, **options: Any) -> None:
        super().__init__(**options)
        self.rows = rows

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=(self.rows, shape[-1]), name="table")

    def call(self, inputs: Any) -> Any:
        return inputs + self.table[: ops.shape(inputs)[1]]


class Sliced(Table):
    def call(self, inputs: Any) -> Any:
        return inputs + ops.slice(self.table, (0, 0), ops.shape(inputs)[1:])


class Taken(Table):
    def call(self, inputs: Any) -> Any:
        return inputs + ops.take(self.table, ops.arange(ops.shape(inputs)[1]), axis=0)


class Shifted(Table):
    """The first three rows are of other use, as in OPT."""

    def call(self, inputs: Any) -> Any:
        return inputs + ops.take(self.table, 3 + ops.expand_dims(ops.arange(ops.shape(inputs)[1]), 0), axis=0)


class WithBatch(Table):
    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=(1, self.rows, shape[-1]), name="table")

    def call(self, inputs: Any) -> Any:
        return inputs + self.table[:, : ops.shape(inputs)[1], :]


class Clipped(Table):
    """The last row is that of all positions beyond."""

    def call(self, inputs: Any) -> Any:
        places = ops.minimum(ops.arange(ops.shape(inputs)[1]), self.rows - 1)
        return inputs + ops.take(self.table, places, axis=0)


class Summed(Table):
    """Python's slices end where the table does, and nobody minds."""

    def call(self, inputs: Any) -> Any:
        return inputs + ops.sum(self.table[: ops.shape(inputs)[1]], axis=0)


class ById(Table):
    """The inputs themselves are the places."""

    def call(self, inputs: Any) -> Any:
        return inputs + ops.take(self.table, ops.cast(inputs[..., 0], "int32"), axis=0)


def model_of(*layers: keras.layers.Layer) -> keras.Model:
    x = keras.Input((None, 4), name="x")
    return keras.Model(x, keras.Sequential(layers)(x))


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize(
    ("layers", "most"),
    [
        ([Table()], ROWS),
        ([Sliced()], ROWS),
        ([Taken()], ROWS),
        ([Shifted()], ROWS - 3),
        ([WithBatch()], ROWS),
        ([LearnedPositionEmbedding(ROWS)], ROWS),
        ([keras.layers.Conv1D(4, 3, strides=2, padding="same"), Sliced()], 2 * ROWS),
        ([Taken(), Sliced(ROWS - 50)], ROWS - 50),
    ],
)
def test_a_length_ends_with_the_table_of_its_positions(layers: list[keras.layers.Layer], most: int) -> None:
    model = model_of(*layers)
    assert model_signature(model).dimensions["length"].sizes == SizeRange(1, 1, most)
    model(np.zeros((1, most, 4), "float32"))
    with pytest.raises(Exception, match=r"."):  # each operator has an error of its own
        model(np.zeros((1, most + 1, 4), "float32"))


@pytest.mark.parametrize("layer", [Clipped, Summed, ById])
def test_a_table_that_is_not_read_past_its_end_bounds_nothing(layer: type[Table]) -> None:
    model = model_of(layer())
    assert model_signature(model).dimensions["length"].sizes == SizeRange()
    model(np.zeros((1, 3 * ROWS, 4), "float32"))


def test_the_end_of_a_long_table_is_known_without_a_call_at_its_length() -> None:
    class Long(Sliced):
        def call(self, inputs: Any) -> Any:
            met.append(inputs.shape[1])
            return super().call(inputs)

    met: list[int | None] = []
    assert str(model_signature(model_of(Long(131_072))).dimensions["length"].sizes) == "from 1 to 131072"
    assert max(filter(None, met)) < 1000


def test_each_length_ends_with_its_own_table() -> None:
    inputs = [keras.Input((None, 4), name=name) for name in "abc"]
    layers = [Sliced(), Taken(500), keras.layers.Activation("relu")]
    signature = model_signature(keras.Model(inputs, [layer(x) for layer, x in zip(layers, inputs, strict=True)]))
    assert [signature.dimensions[name].sizes.most for name in ("length", "length_2", "length_3")] == [ROWS, 500, None]


def test_sizes_that_are_given_must_be_within_the_table() -> None:
    assert model_signature(model_of(Taken()), sizes={"length": (ROWS,)}).sizes["length"] == ROWS
    with pytest.raises(UnknownSizesError, match=f"length {ROWS + 1}.*'length': {ROWS}") as error:
        model_signature(
            keras.Model(x := keras.Input((None, 4)), Taken(name="places")(x)), sizes={"length": (ROWS + 1,)}
        )
    assert (error.value.layer, error.value.rows) == ("places", ROWS)


def test_a_layer_that_refuses_a_size_is_named() -> None:
    model = keras.Model(x := keras.Input((None, 4)), Table(name="places")(x))
    with pytest.raises(UnknownSizesError, match="Layer 'places' refuses") as error:
        model_signature(model, sizes={"length": (ROWS + 1,)})
    assert (error.value.layer, error.value.rows) == ("places", None)
