"""Sizes are found before anything runs, and models that take certain sizes only have a signature."""

import re
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

from keras_pe.export import model_signature
from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.dimensions import SizeRange, describe_dimensions
from keras_pe.export.model.sizes.shape_inference import GraphShapes, SymbolicShapes
from keras_pe.export.model.watch.nested_arguments import FlatModel
from keras_pe.export.records import Signature


def images(*stack: Any, size: Any = (None, None, 3)) -> keras.Model:
    return keras.Sequential([keras.Input(size, name="images"), *stack])


def u_net() -> keras.Model:
    inputs = x = keras.Input((None, None, 3), name="images")
    skips = []
    for filters in (2, 3):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    while skips:
        x = layers.Concatenate()([layers.UpSampling2D()(x), skips.pop()])
    return keras.Model(inputs, layers.Conv2D(1, 1, name="mask")(x))


@pytest.mark.slow
def test_a_u_net_takes_multiples_of_four() -> None:
    signature = model_signature(u_net())
    assert signature.outputs[0].shape == ("batch", "height", "width", 1)
    assert describe_dimensions(signature.dimensions) == ["batch: any", "height, width: multiples of 4, from 4"]
    assert all(size % 4 == 0 for name, size in signature.sizes.items() if name != "batch")


def test_sizes_that_leave_nothing_are_never_run() -> None:
    ran: list[tuple[int, ...]] = []

    class Watched(layers.Layer):
        def call(self, x: Any) -> Any:
            if not keras.src.backend.is_int_dtype(x.dtype) and hasattr(x, "numpy"):
                ran.append(tuple(x.shape))
            return x

    # TensorFlow ends the process on an average over a window of a tensor without rows.
    model = images(layers.Conv2D(2, 3, strides=8), Watched(), layers.AveragePooling2D(3, strides=2, padding="valid"))
    signature = model_signature(model)
    assert signature.dimensions["height"].sizes == SizeRange(19, 1)  # (19 - 3) // 8 + 1 = 3 rows, one window
    assert ran
    assert all(min(shape) > 0 for shape in ran)


def test_a_tensor_empty_at_any_size_is_not_a_sign_of_a_size_too_small() -> None:
    x = keras.Input((None, 8), name="x")
    for y in (layers.Dense(4)(x[..., :0]), layers.Concatenate(axis=1)([x[:, :0], x])):
        assert model_signature(keras.Model(x, y)).dimensions["length"].sizes == SizeRange()


def test_a_dimension_pooled_to_one_size_at_two_neighbors_is_not_a_constant() -> None:
    model = images(*(layers.MaxPooling2D() for _ in range(5)))
    signature = model_signature(model)
    name = signature.outputs[0].name
    assert signature.outputs[0].shape == ("batch", f"{name}_axis_1", f"{name}_axis_2", 3)
    assert signature.dimensions["width"].sizes == SizeRange(32, 1)


def test_an_audio_model_with_long_strides_has_no_constant_output() -> None:
    model = keras.Sequential([keras.Input((None, 1), name="x"), layers.Conv1D(2, 400, strides=320, name="frames")])
    signature = model_signature(model)
    assert signature.outputs[0].shape == ("batch", "frames_axis_1", 2)
    assert signature.dimensions["length"].sizes == SizeRange(400, 1)


def test_nodes_and_edges_are_not_one_batch() -> None:
    nodes = keras.Input((4,), name="nodes")
    edges = keras.Input((2,), dtype="int32", name="edges")
    messages = ops.take(nodes, edges[:, 0], axis=0) + ops.take(nodes, edges[:, 1], axis=0)
    signature = model_signature(keras.Model([nodes, edges], [layers.Dense(3)(nodes), messages]))
    assert [spec.shape[0] for spec in (*signature.inputs, *signature.outputs)] == ["batch", "batch_2"] * 2


def test_a_model_is_searched_once_and_again_after_a_layer_was_changed() -> None:
    calls: list[Any] = []

    class Cut(layers.Layer):
        def __init__(self, count: int, **options: Any) -> None:
            super().__init__(**options)
            self.count = count

        def call(self, x: Any) -> Any:
            calls.append(x)
            return x[:, self.count :]

    model = keras.Sequential([keras.Input((None, 4), name="x"), Cut(2, name="y")])
    assert model_signature(model).dimensions["length"].sizes == SizeRange(3)
    once = len(calls)
    assert model_signature(model).dimensions["length"].sizes == SizeRange(3)
    assert len(calls) == once
    model_signature(model, sizes={"length": 7})
    assert len(calls) > once
    model.get_layer("y").count = 5
    assert model_signature(model).dimensions["length"].sizes == SizeRange(6)


def test_a_table_of_positions_ends_the_range() -> None:
    class Table(layers.Layer):
        def build(self, shape: Any) -> None:
            self.table = self.add_weight(shape=(16, 4), name="table")

        def call(self, x: Any) -> Any:
            return x + self.table[: ops.shape(x)[1]]

    signature = model_signature(keras.Sequential([keras.Input((None, 4), name="x"), Table(name="y")]))
    assert signature.dimensions["length"].sizes == SizeRange(1, 1, 16)
    assert max(signature.other_sizes()["length"], signature.sizes["length"]) <= 16


def test_a_size_that_only_a_kernel_refuses_bounds_the_range() -> None:
    class Short(layers.Layer):
        def call(self, x: Any) -> Any:
            if hasattr(x, "numpy") and x.shape[1] > 4:
                raise ValueError("too long to run")
            return x * 1.0

    signature = model_signature(keras.Sequential([keras.Input((None, 4), name="x"), Short(name="y")]))
    assert signature.dimensions["length"].sizes == SizeRange(1, 1, 2)


def test_a_model_of_one_size_is_told_so_with_the_signature_to_write() -> None:
    class Grid(layers.Layer):
        def build(self, shape: Any) -> None:
            self.grid = self.add_weight(shape=(6, 6, 3), name="grid")

        def call(self, x: Any) -> Any:
            return x + self.grid

    model = images(Grid(name="y"))
    spec = "keras.InputSpec(shape=(None, 6, 6, 3), dtype='float32')"
    with pytest.raises(UnknownSizesError, match=re.escape(f"input_signature=[{spec}]")):
        model_signature(model)
    assert model_signature(model, [eval(spec)]).outputs[0].shape == ("batch", 6, 6, 3)


def test_a_model_of_images_that_takes_no_size_is_told_to_give_heights_and_widths() -> None:
    @keras.saving.register_keras_serializable("probing")
    class Never(layers.Layer):
        def call(self, x: Any) -> Any:
            if None not in x.shape[1:3]:
                raise ValueError("not at this size")
            return x * 1.0

    hint = re.escape("sizes={'height': 64, 'width': 64}")
    with pytest.raises(UnknownSizesError, match=f"not at this size.* {hint}"):
        model_signature(images(Never(name="y")))


def test_a_model_that_looks_into_a_tensor_is_told_so_without_a_search_for_sizes() -> None:
    asked: list[Any] = []

    class Looking(keras.Model):
        def call(self, x: Any) -> Any:
            asked.append(x)
            return x * int(ops.max(x))

    model = Looking()
    model(np.ones((1, 3, 4), "float32"))
    with pytest.raises(UnknownSizesError, match="Python asks for a number in a tensor there"):
        model_signature(model, keras.InputSpec(shape=(None, None, 4), dtype="float32"))
    assert len(asked) < 10


def test_sizes_of_the_caller_are_those_that_are_used() -> None:
    signature = model_signature(u_net(), sizes={"height": (64, 32), "width": (96,)})
    assert describe_dimensions(signature.dimensions) == ["batch: any", "height: 64, 32 (given)", "width: 96 (given)"]
    assert signature.sizes == {"batch": 3, "height": 32, "width": 96}
    assert signature.other_sizes()["height"] == 64


@pytest.mark.slow
def test_sizes_of_no_dimension_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be of the dynamic dimensions batch, height, width\. Received: length"):
        model_signature(u_net(), sizes={"length": (64,)})


@pytest.mark.slow
def test_a_signature_that_was_made_is_returned_as_it_is() -> None:
    model = u_net()
    signature = model_signature(model)
    assert isinstance(signature, Signature)
    assert model_signature(model, signature) is signature


def test_a_spec_without_a_dtype_has_the_models() -> None:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    model = keras.Model(tokens, layers.Embedding(9, 2)(tokens))
    assert model_signature(model, [keras.InputSpec(shape=(None, 7))]).inputs[0].dtype == "int32"


@pytest.mark.slow
def test_two_sequences_that_are_read_step_by_step_have_lengths_of_their_own_and_one_batch() -> None:
    encoded, decoded = (keras.Input((None, count), name=name) for name, count in (("encoded", 3), ("decoded", 2)))
    _, *state = layers.LSTM(4, return_state=True)(encoded)
    model = keras.Model([encoded, decoded], layers.LSTM(4, return_sequences=True)(decoded, initial_state=state))
    signature = model_signature(model)
    assert [spec.shape for spec in signature.inputs] == [("batch", "length", 3), ("batch", "length_2", 2)]
    assert signature.outputs[0].shape == ("batch", "length_2", 4)
    assert describe_dimensions(signature.dimensions) == ["batch, length, length_2: any"]


class Prompts(layers.Layer):
    """Text beside boxes with labels, which are added where there are any: shapes do not tell that they must agree."""

    def __init__(self, masks_by_row: bool = False) -> None:
        super().__init__()
        self.masks_by_row = masks_by_row

    def call(self, text: Any, boxes: Any, labels: Any) -> Any:
        labels = ops.cast(labels, "float32")[..., None]
        marked = ops.cond(ops.shape(boxes)[1] > 0, lambda: boxes + labels, lambda: boxes)
        places = ops.cond(ops.shape(boxes)[1] > 0, lambda: labels[..., 0], lambda: boxes[..., 0])
        if self.masks_by_row:
            marked *= places  # (batch, boxes) beside (batch, boxes, 1): one row, or as many boxes as rows
        return ops.sum(text, axis=1) + ops.sum(marked, axis=(1, 2), keepdims=True)[:, 0]


def prompts(masks_by_row: bool = False) -> keras.Model:
    text, boxes = keras.Input((None, 1), name="text"), keras.Input((None, 1), name="boxes")
    labels = keras.Input((None,), dtype="int32", name="labels")
    return keras.Model([text, boxes, labels], Prompts(masks_by_row)(text, boxes, labels))


def test_lengths_that_only_a_run_tells_to_be_equal_have_one_name_and_others_their_own() -> None:
    signature = model_signature(prompts())
    assert {spec.name: spec.shape[1] for spec in signature.inputs} == {
        "text": "length",
        "boxes": "length_2",
        "labels": "length_2",
    }
    assert signature.sizes["length"] != signature.sizes["length_2"]


def test_a_batch_that_is_taken_by_chance_is_no_batch_and_the_one_that_is_taken_is_named() -> None:
    model = prompts(masks_by_row=True)
    with pytest.raises(UnknownSizesError, match="batch 1") as caught:
        model_signature(model)
    written = re.search(r"input_signature=(\[.*?\]), or", str(caught.value))
    assert written
    for remedy in ({"input_signature": eval(written[1])}, {"sizes": {"batch": (1,)}}):
        shapes = [spec.shape for spec in model_signature(model, **remedy).inputs]
        assert [shape[1] for shape in shapes] == ["length", "length_2", "length_2"]


class Pooled(layers.Layer):
    """Adds images, each pooled to four places, to a text at the places that are given."""

    def call(self, text: Any, images: Any, places: Any) -> Any:
        batch, count = ops.shape(images)[:2]
        pooled = ops.reshape(images, (batch, count * 4, 2)) + ops.cast(places, "float32")[..., None]
        return text + ops.sum(pooled, 1, keepdims=True)


def _image_model() -> keras.Model:
    text, images = keras.Input((None, 2), name="text"), keras.Input((None, 2, 4), name="images")
    places = keras.Input((None,), dtype="int32", name="places")
    inputs = {"text": text, "images": images, "places": places}
    return keras.Model(inputs, Pooled(name="y")(text, images, places))


def _example(length: int, count: int) -> dict[str, np.ndarray]:
    shapes = {"text": (2, length, 2), "images": (2, count, 2, 4), "places": (2, 4 * count)}
    return {name: np.zeros(shape, "int32" if name == "places" else "float32") for name, shape in shapes.items()}


def _related_inputs(function: Any, *shapes: Any) -> keras.Model:
    inputs = [keras.Input(shape, name=name) for name, shape in zip(("first", "second", "both"), shapes, strict=False)]
    return keras.Model(inputs, layers.Lambda(function, output_shape=(None,), name="y")(inputs))


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        pytest.param(_image_model, {"length": 9, "height": 6, "length_2": 24}, id="multiple"),
        pytest.param(
            lambda: _related_inputs(lambda x: ops.concatenate(x[:2], 1) + x[2], *[(None, 4)] * 3),
            {"length": 24, "length_2": 7, "length_3": 31},
            id="sum",
        ),
        pytest.param(
            lambda: _related_inputs(lambda x: x[0][:, 1:] - x[1], *[(None, 4)] * 2),
            {"length": 25, "length_2": 24},
            id="token",
        ),
        pytest.param(
            lambda: _related_inputs(
                lambda x: ops.reshape(x[0][:, :, None] * x[1][:, None], (ops.shape(x[0])[0], -1)) - x[2], *[(None,)] * 3
            ),
            {"length": 6, "length_2": 7, "length_3": 42},
            id="product",
        ),
        pytest.param(
            lambda: _related_inputs(lambda x: ops.average_pool(x[0], 2) - x[1], *[(None, None, 3)] * 2),
            {"height": 8, "width": 12, "height_2": 4, "width_2": 6},
            id="half",
        ),
        pytest.param(
            lambda: _related_inputs(lambda x: ops.reshape(x[0], (ops.shape(x[0])[0], -1, 17)), (None,)),
            {"length": 34},
            id="seventeens",
        ),
    ],
)
def test_sizes_that_are_not_found_are_given_by_the_argument_that_is_printed(model: Any, sizes: dict[str, int]) -> None:
    with pytest.raises(UnknownSizesError) as caught:
        model_signature(made := model())
    printed = re.search(r"sizes=(\{.*?\})", str(caught.value))
    assert printed is not None
    assert eval(printed[1]).keys() == sizes.keys()  # one for each axis
    found = model_signature(made, sizes=sizes).dimensions
    assert [own.sizes.given for name, own in found.items() if name != "batch"] == [(size,) for size in sizes.values()]
    printed = re.search(r"inputs=(\{.*?\)\})", str(caught.value))
    assert printed is not None
    example = eval(printed[1], {"numpy": np})
    assert {name: array.dtype.name for name, array in example.items()} == {x.name: x.dtype for x in made.inputs}


def test_a_batch_that_must_be_even_is_found_where_nothing_else_is_dynamic() -> None:
    x = keras.Input((4,), name="x")
    pairs = layers.Lambda(lambda x: ops.max(ops.reshape(x, (ops.shape(x)[0] // 2, 2, 4)), 1), output_shape=(4,))
    signature = model_signature(keras.Model(x, pairs(x)))
    assert describe_dimensions(signature.dimensions) == ["batch: multiples of 2, from 2"]


def test_a_query_about_steps_covers_all_steps_at_once() -> None:
    steps: list[Any] = []

    class Step(layers.Layer):
        def call(self, x: Any) -> Any:
            steps.append(x.shape)
            return x[..., :2]

        def compute_output_shape(self, shape: Any) -> Any:
            return *shape[:-1], 2

    x = keras.Input((None, 4), name="x")
    model = keras.Model(x, layers.TimeDistributed(Step())(x))
    flat = FlatModel(model, ("x",), {"x": ((None, None, 4), "float32")})
    steps.clear()
    assert SymbolicShapes(flat)([(3, 500, 4)]) == [(3, 500, 2)]
    assert len(steps) == 1
    assert GraphShapes(flat)([(3, 500, 4)]) == [(3, 500, 2)]


def test_a_size_that_only_the_examples_have_is_theirs() -> None:
    one = model_signature(_image_model(), inputs=[_example(9, 1)])
    assert [spec.shape[1] for spec in one.inputs] == ["length", 1, 4]
    two = model_signature(_image_model(), inputs=[_example(9, 1), _example(13, 3)])
    assert [spec.shape[1] for spec in two.inputs] == ["length", "height", "length_2"]
    assert [str(own.sizes) for own in two.dimensions.values()] == ["any", "any", "1, 3 (given)", "4, 12 (given)"]


def test_a_model_that_returns_no_values_is_told_what_it_is_made_of() -> None:
    x = keras.Input((3,), name="x")
    # Both functions capture x from outside
    model = keras.Model(x, ops.cond(ops.sum(x) > 0, lambda: x * 2, lambda: x - 1))
    with pytest.raises(ValueError, match="symbolic"):
        model_signature(model)
