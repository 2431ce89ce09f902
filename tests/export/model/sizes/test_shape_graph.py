"""A graph without weights infers shapes that equal those of the whole graph."""

from typing import Any

import keras
import pytest
from keras import layers, ops

from keras_pe.export.model.sizes.shape_inference import GraphShapes, shape_graph
from keras_pe.export.model.watch.nested_arguments import FlatModel


def infer_shapes(model: keras.Model, shape: tuple[int | None, ...]) -> GraphShapes:
    return GraphShapes(FlatModel(model, ("x",), {"x": (shape, "float32")}))


def convolutions() -> keras.Sequential:
    stack: list[Any] = [keras.Input((None, None, 3))]
    for _ in range(3):
        stack += [layers.Conv2D(3, 3), layers.BatchNormalization()]
    return keras.Sequential(stack)


def kinds(function: Any) -> list[str]:
    graph = function.get_concrete_function().graph
    found = shape_graph(graph, [graph.inputs[0].op.name], [graph.outputs[0].op.name])
    return sorted(node.op for node in found.node)


def test_operations_on_weights_alone_are_left_out() -> None:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None, 3)), tf.TensorSpec((3, 3)), tf.TensorSpec((3, 3))])
    def product(x: Any, one: Any, other: Any) -> Any:
        return x @ (tf.math.rsqrt(one) * 2.0) @ tf.exp(other)

    # Both weights have one shape, and the input another.
    assert kinds(product) == ["Identity", "MatMul", "MatMul", "Placeholder", "Placeholder"]


def test_sizes_that_are_computed_with_numbers_are_kept() -> None:
    import tensorflow as tf

    class Upsampled(layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, x: Any) -> Any:
            size = tf.cast(tf.cast(tf.shape(x)[1:3], "float32") * 1.5, "int32")
            return tf.image.resize(x, size)

    model = keras.Sequential([keras.Input((None, None, 3)), Upsampled()])
    assert infer_shapes(model, (None, None, None, 3))([(2, 10, 8, 3)]) == [(2, 15, 12, 3)]


@pytest.mark.parametrize("size", [7, 24, 65])
def test_shapes_are_those_that_the_model_returns(size: int) -> None:
    model = convolutions()
    assert infer_shapes(model, (None, None, None, 3))([(2, size, 9, 3)]) == [model(ops.zeros((2, size, 9, 3))).shape]


def test_sizes_that_do_not_go_together_are_refused() -> None:
    model = keras.Sequential([keras.Input((None,)), layers.Reshape((-1, 4)), layers.Dense(2)])
    infer = infer_shapes(model, (None, None))
    assert infer([(3, 8)]) == [(3, 2, 2)]
    with pytest.raises(ValueError, match="divisible by 12"):
        infer([(3, 7)])
