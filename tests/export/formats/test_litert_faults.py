"""Operators that LiteRT's GPU delegate computes wrongly get forms with the same results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_pe.export.artifacts.litert_operators import Operator, read_operators
from keras_pe.export.formats.litert_rewrites import rewritten
from keras_pe.export.formats.litert_targets import TARGETS
from tests.export.formats.test_litert_rewrites import convert, run

ROWS = np.arange(12, dtype="float32").reshape(6, 1, 2) - 5


def slopes(x: Any) -> Any:
    """Returns a leaky ReLU behind the operators of a PReLU."""
    import tensorflow as tf

    first = tf.nn.relu(x) + -tf.constant([[0.2, 0.4]], "float32") * tf.nn.relu(-x)
    return tf.nn.leaky_relu(first, 0.3)


def leaves_the_last_axis(operator: Operator) -> bool:
    return operator.inputs[0].shape[-1] == 1


def has_full_lanes(operator: Operator) -> bool:
    return operator.inputs[0].shape[-1] % 4 == 0


def has_four_axes(operator: Operator) -> bool:
    return all(len(each.shape) in (0, 4) for each in operator.inputs)


def is_last_of_two(operator: Operator) -> bool:
    return operator.inputs[0].name.rpartition("/")[2].startswith("rewritten")


def has_computed_places(operator: Operator) -> bool:
    return not operator.inputs[1].is_stored


def has_equal_batches(operator: Operator) -> bool:
    one, other = operator.inputs
    return one.shape[:2] == other.shape[:2]


def share_keys(x: Any) -> Any:
    """Returns products of two groups of rows with one group of columns."""
    return ops.matmul(ops.reshape(x, (3, 2, 6, 2)), ops.reshape(x[:3], (3, 1, 2, 6)))


CASES: dict[str, tuple[Callable[[Any], Any], str, Callable[[Operator], bool]]] = {
    "the place of the largest": (lambda x: ops.argmax(x, axis=-1), "ARG_MAX", leaves_the_last_axis),
    "the least place": (lambda x: ops.argmin(x[0, :, 0]), "ARG_MAX", leaves_the_last_axis),
    "the largest": (lambda x: ops.top_k(ops.transpose(x, (0, 2, 1)), 5)[1], "TOPK_V2", has_full_lanes),
    "rows of a constant": (lambda x: x * ROWS, "MUL", has_four_axes),
    "rows of a matrix": (lambda x: ops.maximum(x[:, 0], ROWS[:, 0]), "MAXIMUM", has_four_axes),
    "the largest sum": (lambda x: ops.max(x + ops.tanh(x), axis=1), "REDUCE_MAX", is_last_of_two),
    "rows at known places": (lambda x: ops.take(x, [5, 0, 0, 3], axis=1), "GATHER", has_computed_places),
    "products with shared keys": (share_keys, "BATCH_MATMUL", has_equal_batches),
    "two slopes": (slopes, "PRELU", lambda _: True),
}


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("name", CASES)
def test_an_operator_gets_the_form_that_a_gpu_computes_right(name: str) -> None:
    function, kind, is_right = CASES[name]
    content = convert(function, 6, 6, 2)
    found = rewritten(content, TARGETS["gpu"], {})
    operators = read_operators(found)
    assert [is_right(each) for each in operators if each.kind == kind]
    assert all(is_right(each) for each in operators if each.kind == kind)
    assert "LEAKY_RELU" not in {each.kind for each in operators}
    usual = [each for each in read_operators(rewritten(content, TARGETS["micro"], {})) if each.kind == kind]
    assert not any(is_right(each) for each in usual) or name == "two slopes"
    x = np.random.default_rng(0).standard_normal((6, 6, 2)).astype("float32")
    np.testing.assert_array_equal(run(found, x), run(content, x))
