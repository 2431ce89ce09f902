"""Operations that user code calls on tensors are recorded with their operands, results and places."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe.export.model.watch.operations import recorded_operations, tensors_in


def _square(x):
    return ops.square(x)


class Decode(keras.layers.Layer):
    def build(self, shape):
        self.factor = self.add_weight(shape=(2,), initializer="ones", name="factor")
        self.dense = keras.layers.Dense(2)
        self.dense.build(shape)

    def call(self, x):
        left, right = ops.split(self.dense(x), 2, axis=-1)
        size = _square(x[..., 1:]) / 2.0
        return ops.concatenate(
            [left * self.factor[:1], right + size],
            axis=-1,
        )


@pytest.fixture(scope="module")
def recorded():
    layer = Decode()
    x = ops.convert_to_tensor(np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(3, 2))
    layer.build((3, 2))
    with recorded_operations() as operations:
        result = layer.call(x)
    return operations, result


def test_calls_operators_and_layers_of_user_code_are_recorded_with_their_expression_and_line(recorded):
    operations, _ = recorded
    lines, first = inspect.getsourcelines(Decode.call)
    texts = [operation.place.operation for operation in operations]
    assert texts[:5] == [
        *("self.dense(x)", "ops.split(self.dense(x), 2, axis=-1)", "x[..., 1:]", "ops.square(x)"),
        "_square(x[..., 1:]) / 2.0",
    ]
    assert [operations[number].place.line - first for number in (0, 1, 2, 4)] == [1, 1, 2, 2]
    assert operations[3].place.line == inspect.getsourcelines(_square)[1] + 1
    assert {operation.place.file for operation in operations} == {__file__}
    assert operations[-1].place.operation == "ops.concatenate([left * self.factor[:1], right + size], axis=-1)"
    assert operations[-1].place.location.startswith("`Decode.call` (test_operations.py, line ")
    assert "concatenate" in lines[3]


def test_result_of_one_operation_is_the_operand_of_the_next(recorded):
    operations, result = recorded
    assert operations[1].operands[0] is operations[0].result
    assert operations[-1].result is result
    assert [len(operation.outputs) for operation in operations[:2]] == [1, 2]


def test_recorded_operation_can_be_called_again_with_other_operands(recorded):
    operations, _ = recorded
    for operation in operations:
        again = tensors_in(operation.function(*operation.arguments, **operation.keywords))
        for one, other in zip(again, operation.outputs, strict=True):
            np.testing.assert_allclose(one, other)
    square = operations[3]
    assert square.parameters == ("x",)
    np.testing.assert_allclose(square.function(3.0), 9.0)


class Scale(keras.layers.Layer):
    def call(self, x):
        return ops.tanh(x) * 3.0


class Twice(keras.layers.Layer):
    def __init__(self, **options):
        super().__init__()
        self.scale = Scale(**options)

    def call(self, x):
        return ops.exp(self.scale(self.scale(x)))


def _record(layer):
    x = ops.convert_to_tensor(np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(3, 2))
    with recorded_operations() as operations:
        layer.call(x)
    return operations


def test_operations_inside_a_users_layer_are_recorded_instead_of_its_call():
    operations = _record(Twice())
    inside = ["ops.tanh(x)", "ops.tanh(x) * 3.0"]
    assert [each.place.operation for each in operations] == [*inside, *inside, "ops.exp(self.scale(self.scale(x)))"]
    assert operations[0].callers[0].operation == "self.scale(x)"
    assert operations[2].callers[0].operation == "self.scale(self.scale(x))"
    assert operations[2].operands[0] is operations[1].result


def test_users_layer_to_which_keras_passes_other_tensors_is_one_operation():
    texts = [each.place.operation for each in _record(Twice(dtype="float64"))]
    assert texts[0] == "self.scale(x)"  # the second call has float64 already
