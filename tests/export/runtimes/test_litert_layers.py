"""Each operator of a LiteRT file has its layer, whatever numbers the trace and the converter add to the names."""

import pytest

from keras_pe.export.artifacts.litert_operators import Operator, Tensor
from keras_pe.export.runtimes.litert_layers import operator_layers


def dense(given: str, weight: str, result: str) -> Operator:
    stored = Tensor(weight, (4, 4), "float32", is_stored=True)
    return Operator("FULLY_CONNECTED", (Tensor(given, (1, 4), "float32"), stored), (Tensor(result, (1, 4), "float32"),))


@pytest.mark.parametrize(
    ("traced", "layers"),
    [
        # The names that Keras gives to layers without one, in this process and in another.
        (["dense_1", "dense_1_2", "dense_2_1"], ["dense", "dense_1", "dense_2"]),
        (["dense_3_1", "dense_4_1", "dense_5_1"], ["dense", "dense_1", "dense_2"]),
        (["dense_1", "dense_1_2", "dense_2_1"], ["dense_3", "dense_4", "dense_5"]),
        # Names of a user, and those of a converter that adds no numbers.
        (["block_1_1", "block_2_1", "head_1"], ["block_1", "block_2", "head"]),
        (["block_1", "block_2", "head"], ["block_1", "block_2", "head"]),
        (["block_1", "block_2", "block_3"], ["block_1", "block_2", "block_3"]),
    ],
)
def test_an_operator_has_the_layer_that_was_traced_and_a_result_the_layer_of_its_weight(
    traced: list[str], layers: list[str]
) -> None:
    weights = [f"model_1/{name}/MatMul" for name in traced]
    results = [f"{weights[0]};model_1/{traced[0]}/Relu", weights[1], "StatefulPartitionedCall_1:0"]
    given = ["serving_default_x:0", *results[:2]]
    operators = [dense(*names) for names in zip(given, weights, results, strict=True)]
    assert operator_layers(operators, layers) == layers


def test_an_activation_behind_the_last_weight_has_the_layer_before_it() -> None:
    first = dense("serving_default_x:0", "model_1/class_1/MatMul", "model_1/class_1/MatMul1")
    last = Operator("SOFTMAX", first.outputs, (Tensor("StatefulPartitionedCall_1:0", (1, 4), "float32"),))
    assert operator_layers([first, last], ["class"]) == ["class", "class"]
