"""Attention exports as one operator if the operator set has it, and else as few, for every layer."""

import collections

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import check_parity, export_onnx
from tests.export.onnx.exported import Apply, assert_agrees, export_and_compare, file_operators, run_file

L = keras.layers


class Grouped(L.Layer):
    """Attention of four queries' heads to two of keys, spelled out as keras-hub's Gemma does."""

    def __init__(self, is_shuffled=(False, False), is_masked=True):
        super().__init__()
        self.is_shuffled, self.is_masked = is_shuffled, is_masked
        self.softmax = L.Softmax()

    def call(self, query, key, allowed):
        ops = keras.ops
        turned = [_shuffle(x) if is_turned else x for x, is_turned in zip((query, key), self.is_shuffled, strict=True)]
        shape = ops.shape(query)
        scores = ops.einsum("btkgh,bskh->bkgts", ops.reshape(turned[0] * 0.5, (*shape[:2], 2, 2, 4)), turned[1])
        weights = self.softmax(scores, mask=allowed[:, None, None] if self.is_masked else None)
        return ops.reshape(ops.einsum("bkgts,bskh->btkgh", weights, key), shape)


def _shuffle(x):
    return keras.ops.reshape(keras.ops.stack(keras.ops.split(x, 2, axis=-1), axis=-1), keras.ops.shape(x))


def _attention_inputs(heads):
    rng = np.random.default_rng(0)
    query, key = (rng.normal(size=(2, length, each, 4)).astype("float32") for length, each in ((5, 4), (7, heads)))
    allowed = rng.random((2, 5, 7)) < 0.5
    allowed[0, 1] = False  # a query that may see nothing
    return {"query": query, "key": key, "allowed": allowed}


def _operators_of(layer, heads, folder, opset):
    """Returns the operators of a file, once ONNX Runtime has returned with it what Keras returns."""
    given = _attention_inputs(heads)
    inputs = {name: keras.Input((None, *x.shape[2:]), dtype=x.dtype, name=name) for name, x in given.items()}
    inputs["allowed"] = keras.Input((None, None), dtype="bool", name="allowed")
    model = keras.Model(inputs, layer(*inputs.values()))
    # Scores are sums of four products below 16, whose weights are off by as much; results are means of numbers below 4.
    path, atol = folder / f"{opset}.onnx", 4 * 4 * 16 * 2**-24
    export_and_compare(model, path, given, atol=atol, opset_version=opset)
    return collections.Counter(file_operators(path))


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_that_a_layer_spells_out_is_one_operator_from_the_set_that_has_it(is_masked, tmp_path):
    layer = Grouped(is_masked=is_masked)
    at_18, at_23 = (_operators_of(layer, 2, tmp_path, opset) for opset in (18, 23))
    assert (at_18["Attention"], at_18["MatMul"], at_18["Einsum"]) == (0, 2, 0)
    assert (at_23["Attention"], at_23["MatMul"], at_23["Softmax"]) == (1, 0, 0)


def _keras_products(query, key, allowed):
    ops = keras.ops
    query, key = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key))
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) / ops.sqrt(ops.cast(ops.shape(key)[-1], "float32"))
    weights = ops.softmax(scores + (1.0 - ops.cast(allowed[:, None], "float32")) * -1e9)
    return ops.transpose(ops.matmul(weights, key), (0, 2, 1, 3))


def _layer(query, key, allowed):
    attended = L.Attention(score_mode="dot")([query[:, :, 0], key[:, :, 0]], mask=[None, allowed[:, 0]])
    return attended[:, :, None]


@pytest.mark.parametrize("function", [_keras_products, _layer])
def test_attention_by_products_of_matrices_is_one_operator_too(function, tmp_path):
    operators = _operators_of(Apply(function), 4, tmp_path, 23)
    assert (operators["Attention"], operators["MatMul"], operators["Transpose"]) == (1, 0, 0)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("opset", [18, 23])
def test_a_shuffle_of_channels_that_are_summed_is_left_out_where_both_factors_have_it(opset, tmp_path):
    assert not _operators_of(Grouped((True, True)), 2, tmp_path, opset)["Split"]
    assert _operators_of(Grouped((True, False)), 2, tmp_path, opset)["Split"] == 1


def test_a_mask_of_a_softmax_is_added_once_for_all_and_gives_zeros_to_who_may_see_nothing(tmp_path):
    scores = keras.Input((3, None, None), name="scores")
    allowed = keras.Input((1, None, None), dtype="bool", name="allowed")
    weights = scores
    for _ in range(3):
        weights = L.Softmax()(weights, mask=allowed)
    model = keras.Model([scores, allowed], weights)
    rng = np.random.default_rng(0)
    given = {"scores": rng.normal(size=(2, 3, 5, 5)).astype("float32"), "allowed": rng.random((2, 1, 5, 5)) < 0.5}
    given["allowed"][0, 0, 1] = False
    # Thrice an exponential, a sum and a quotient of numbers up to 1.
    path = export_and_compare(model, tmp_path / "model.onnx", given, atol=3 * 4 * 2**-24).path
    assert not run_file(path, **given)[0][0, :, 1].any()
    assert file_operators(path).count("Where") == 1


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", ["Gemma", "Llama", "Mistral"])
def test_decoders_of_keras_hub_attend_and_turn_by_one_operator_each(name, tmp_path):
    import keras_hub

    keras.utils.set_random_seed(0)
    sizes = {"vocabulary_size": 20, "num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32}
    heads = {"num_query_heads": 4, "num_key_value_heads": 2, **({"head_dim": 4} if name == "Gemma" else {})}
    model = getattr(keras_hub.models, f"{name}Backbone")(**sizes, **heads)
    artifact = export_onnx(model, tmp_path / "model.onnx", opset_version=23)
    operators = collections.Counter(file_operators(artifact.path))
    assert (operators["Attention"], operators["RotaryEmbedding"], operators["Softmax"]) == (2, 4, 0)
    assert check_parity(model, artifact, runtimes="onnxruntime").passed


@pytest.mark.slow
def test_masked_attention_adds_a_mask_that_is_made_once_and_answers_as_keras_does(tmp_path):
    def attend(x, mask):
        for is_causal in (False, False, True, True):
            x = x + keras.ops.dot_product_attention(x, x, x, mask=mask, is_causal=is_causal)
        return x

    rng = np.random.default_rng(0)
    given = [rng.normal(size=(2, 5, 2, 4)).astype("float32"), rng.random((2, 1, 5, 5)) < 0.5]
    given[1][0, 0, 1] = False  # a query that may see nothing takes the mean of all
    # Sums of at most eight products of numbers around one, in two products a call: 2**-24 each.
    assert_agrees(attend, given, tmp_path, atol=100 * 2**-24)
    operators = collections.Counter(file_operators(tmp_path / "calls.onnx"))
    assert operators["Where"] == 2  # with and without what comes later
    assert operators["And"] == 1


def _masked_layer(kind, dropout, use_causal_mask, dtype):
    keras.utils.set_random_seed(0)
    layer = kind(2, 4, dropout=dropout) if kind is L.MultiHeadAttention else kind(4, 4, 2, dropout=dropout)
    x, mask = keras.Input((None, 8), name="x"), keras.Input((None, None), dtype=dtype, name="mask")
    return keras.Model([x, mask], layer(x, x, attention_mask=mask, use_causal_mask=use_causal_mask))


# Sums of at most eight products of numbers around one, four times over: 2**-24 each.
ATOL_OF_LAYERS = 200 * 2**-24


@pytest.mark.slow_rows(8)
@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23, 25])
@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", [L.MultiHeadAttention, L.GroupQueryAttention])
def test_attention_is_one_operator_from_the_set_that_has_it_and_selects_no_scores(
    kind, dropout, use_causal_mask, opset, tmp_path
):
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(2, 5, 8)).astype("float32"), "mask": rng.random((2, 5, 5)) < 0.5}
    given["mask"][0, 1] = False  # with dropout it takes nothing, without the mean of all
    model, path = _masked_layer(kind, dropout, use_causal_mask, "bool"), tmp_path / "model.onnx"
    artifact = export_and_compare(model, path, given, atol=ATOL_OF_LAYERS, opset_version=opset)
    graph = onnx.load(path).graph
    operators = collections.Counter(node.op_type for node in graph.node)
    unfused = [reason for each in artifact.contents for name, reason in each.unfused.items() if name == "Attention"]
    if opset == 23:
        assert (operators["Attention"], operators["Softmax"], unfused) == (1, 0, [])
        return
    assert (operators["Attention"], operators["Softmax"], len(unfused)) == (0, 1, 1)
    producers = {name: node for node in graph.node for name in node.output}
    (softmax,) = [node for node in graph.node if node.op_type == "Softmax"]
    assert producers[softmax.input[0]].op_type == "Add"
    assert not any(node.op_type == "Where" and softmax.output[0] in node.input for node in graph.node)


@pytest.mark.slow_rows(3)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", [L.MultiHeadAttention, L.GroupQueryAttention])
def test_a_mask_of_numbers_hides_what_it_hides_in_keras(kind, dropout, use_causal_mask, dtype, tmp_path):
    """Keras' layers, with and without dropout, differ in the kept values: those above 0.5, or those unequal to zero."""
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(2, 5, 8)).astype("float32")}
    given["mask"] = rng.choice(np.array([-7, -0.4, 0, 0.4, 1, 7]), (2, 5, 5)).astype(dtype)
    model = _masked_layer(kind, dropout, use_causal_mask, dtype)
    for opset in (18, 23):
        export_and_compare(model, tmp_path / "model.onnx", given, atol=ATOL_OF_LAYERS, opset_version=opset)


@pytest.mark.slow
def test_why_attention_stays_several_operators_is_told(tmp_path):
    x = keras.Input((4, 8), name="x")
    output, scores = L.MultiHeadAttention(2, 4, name="scored")(x, x, return_attention_scores=True)
    for opset, reasons in ((18, {"several"}), (24, set())):
        model = keras.Model(x, [L.MultiHeadAttention(2, 4, name="several")(output, x), scores])
        artifact = export_onnx(model, tmp_path / f"{opset}.onnx", opset_version=opset)
        unfused = {each.layer: each.unfused["Attention"] for each in artifact.contents if "Attention" in each.unfused}
        assert unfused.keys() == {"scored", *reasons}
        assert unfused["scored"] == "its scores are returned"
