"""The graph for tf2onnx takes weights as arguments, holds inlined functions, and keeps loops with their bodies."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import model_signature
from keras_pe.export.graph.trace_function import Trace, trace
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.onnx.conversion import inline
from tests.export.onnx.exported import keras_results, onnx_results

VECTOR = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -8.0]], "float32")
TABLE = np.array([2.0, 5.0, -1.0], "float32")


def trace_model(model: keras.Model) -> Trace:
    return trace(all_layers(model), model_signature(model))


def test_a_weight_is_an_argument_of_its_shape_and_no_constant() -> None:
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, keras.layers.Dense(64)(inputs))
    found = trace_model(model)
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(inline(found), name="")
    shapes = {w.name.split("/")[-1]: graph.get_tensor_by_name(w.argument).shape for w in found.weights}
    assert shapes == {"kernel": (8, 64), "bias": (64,)}
    constants = [op.get_attr("value") for op in graph.get_operations() if op.type == "Const"]
    assert max(np.prod([d.size for d in x.tensor_shape.dim], dtype=int) for x in constants) < 8


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}, {"experimental_attributes": {"_noinline": True}}])
def test_functions_are_inlined_and_loops_keep_their_bodies(options: dict[str, Any]) -> None:
    @tf.function(**options)
    def double(x: Any) -> Any:
        return x * 2.0

    def loop_over_double(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, double(y)), [0, x])[1]

    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Lambda(lambda x: double(loop_over_double(x)), output_shape=(3,))(inputs))
    kinds = [node.op for node in inline(trace_model(model)).node]
    assert {"StatelessWhile", "While"} & set(kinds)
    assert not {"PartitionedCall", "StatefulPartitionedCall", "Enter", "Switch"} & set(kinds)


@pytest.mark.parametrize(
    "lookup",
    [
        lambda table, x: x * table,
        lambda table, x: x + tf.gather(table, 1),
        lambda table, x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.gather(table, i)), [0, x])[1],
        lambda table, x: tf.cond(tf.reduce_sum(x) < 0, lambda: x * table, lambda: x - table),
    ],
    ids=["read", "gathered", "gathered in a loop", "read in a branch"],
)
def test_a_tensorflow_variable_that_keras_does_not_know_is_in_the_file(lookup: Any, tmp_path: Path) -> None:
    table = tf.Variable(TABLE)
    (wanted,) = keras_results(lambda x: lookup(table, x), [VECTOR])
    (found,) = onnx_results(lambda x: lookup(table, x), [VECTOR], tmp_path)
    np.testing.assert_array_equal(found, wanted)
