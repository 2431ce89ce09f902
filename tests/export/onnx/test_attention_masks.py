"""Attention exports as one operator if the operator set has it, and else as few, for every layer."""

import collections

import keras
import numpy as np
import onnx
import onnxruntime
import pytest

from keras_pe.export import check_parity, export_onnx
from tests.export.onnx.exported import keras_results, onnx_results

L = keras.layers


class Grouped(L.Layer):
    """Attention of four queries' heads to two of keys, spelled out as keras-hub's Gemma does."""

    def __init__(self, is_shuffled=(False, False), is_masked=True):
        super().__init__()
        self.is_shuffled, self.is_masked = is_shuffled, is_masked
        self.softmax = L.Softmax()

    def call(self, query, key, allowed):
        ops = keras.ops
        turned = [
            _shuffle(x) if is_shuffled else x for x, is_shuffled in zip((query, key), self.is_shuffled, strict=True)
        ]
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
    model = keras.Model(inputs, layer(**inputs))
    path = export_onnx(model, folder / f"{opset}.onnx", opset_version=opset).path
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    # Scores are sums of four products below 16, whose weights are off by as much; results are means of numbers below 4.
    names = [each.name for each in session.get_inputs()]
    (actual,) = session.run(None, {name: given[name] for name in names})
    np.testing.assert_allclose(actual, model(given), rtol=0, atol=4 * 4 * 16 * 2**-24)
    return collections.Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize("is_masked", [True, False])
def test_attention_that_a_layer_spells_out_is_one_operator_from_the_set_that_has_it(is_masked, tmp_path):
    layer = Grouped(is_masked=is_masked)
    at_18, at_23 = (_operators_of(layer, 2, tmp_path, opset) for opset in (18, 23))
    assert (at_18["Attention"], at_18["MatMul"], at_18["Einsum"]) == (0, 2, 0)
    assert (at_23["Attention"], at_23["MatMul"], at_23["Softmax"]) == (1, 0, 0)


class Learned(L.Layer):
    """Attention of queries that are the same for all examples, as a perceiver has them."""

    def __init__(self):
        super().__init__()
        self.latents = self.add_weight(shape=(1, 5, 4, 4), initializer="random_normal")

    def call(self, query, key, allowed):
        scores = keras.ops.einsum("bqhd,bkhd->bhqk", self.latents + 0.0, key)
        return keras.ops.einsum("bhqk,bkhd->bqhd", keras.ops.softmax(scores), key)


def _keras_products(query, key, allowed):
    ops = keras.ops
    query, key = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key))
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) / ops.sqrt(ops.cast(ops.shape(key)[-1], "float32"))
    weights = ops.softmax(scores + (1.0 - ops.cast(allowed[:, None], "float32")) * -1e9)
    return ops.transpose(ops.matmul(weights, key), (0, 2, 1, 3))


def _operator_products(query, key, allowed):
    ops = keras.ops
    query, key = (ops.transpose(x, (0, 2, 1, 3)) for x in (query * 0.5, key))
    weights = ops.softmax(ops.where(allowed[:, None], query @ ops.swapaxes(key, -1, -2), -1e9))
    return ops.transpose(weights @ key, (0, 2, 1, 3))


def _tensorflow_products(query, key, allowed):
    import tensorflow as tf

    query, key = (tf.transpose(x, (0, 2, 1, 3)) for x in (query, key))
    scores = tf.matmul(query, key, transpose_b=True) / tf.math.sqrt(tf.cast(tf.shape(key)[-1], tf.float32))
    scores -= tf.cast(~allowed[:, None], tf.float32) * 1e9
    return tf.transpose(tf.matmul(tf.nn.softmax(scores, axis=-1), key), (0, 2, 1, 3))


def _products_of_one_head(query, key, allowed):
    ops = keras.ops
    query, key = query[:, :, 0], key[:, :, 0]
    scores = ops.einsum("btc,bsc->bts", query, key) + ops.where(allowed, 0.0, -1e9)
    return ops.matmul(ops.softmax(scores * 0.5), key)[:, :, None]


def _layer(query, key, allowed):
    attended = L.Attention(score_mode="dot")([query[:, :, 0], key[:, :, 0]], mask=[None, allowed[:, 0]])
    return attended[:, :, None]


def _values_first(query, key, allowed):
    import tensorflow as tf

    query, key = (tf.transpose(x, (0, 2, 1, 3)) for x in (query, key))
    weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True))
    return tf.transpose(tf.matmul(key, weights, transpose_a=True, transpose_b=True), (0, 3, 1, 2))


class Called(L.Layer):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, query, key, allowed):
        return self.function(query, key, allowed)


def _weigh(weights):
    """Returns attention whose weights are a function of the scores and the mask."""

    def attend(query, key, allowed):
        ops = keras.ops
        query, key = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key))
        scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
        return ops.transpose(ops.matmul(weights(scores, allowed[:, None]), key), (0, 2, 1, 3))

    return attend


def _mask_twice(scores, allowed):
    is_even = keras.ops.arange(keras.ops.shape(scores)[-1]) % 2 == 0
    masked = keras.ops.where(allowed, scores, -1e9)
    return keras.ops.softmax(keras.ops.where(is_even[None, None, None], -1e9, masked))


PRODUCTS = [_keras_products, _operator_products, _tensorflow_products, _products_of_one_head, _layer, _values_first]


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("function", [*PRODUCTS, _weigh(_mask_twice)])
def test_attention_by_products_of_matrices_is_one_operator_too(function, tmp_path):
    operators = _operators_of(Called(function), 4, tmp_path, 23)
    assert (operators["Attention"], operators["MatMul"], operators["Transpose"]) == (1, 0, 0)


def _mask_of_more_examples(query, key, allowed):
    ops = keras.ops
    query, key = (ops.reshape(x[0], (1, 4, -1, 4)) for x in (query, key))
    scores = ops.matmul(query, ops.swapaxes(key, -1, -2)) + ops.where(allowed[:, None], 0.0, -1e9)
    return ops.transpose(ops.matmul(ops.softmax(scores), key), (0, 2, 1, 3))


def _attend_over_channels(query, key, allowed):
    query, key = query[:, :, 0], key[:, :, 0]
    weights = keras.ops.softmax(keras.ops.matmul(keras.ops.swapaxes(key, 1, 2), key))
    return keras.ops.matmul(query, weights)[:, :, None]


def _scale_by_name(scale):
    return lambda query, key, allowed: keras.ops.dot_product_attention(query, key, key, scale=scale)


# A row of minus infinity is NaN in Keras, and zero in runtimes.
STAYING = {
    "queries of one batch": Learned,
    "an added mask of minus infinity": _weigh(lambda s, m: keras.ops.softmax(s + keras.ops.where(m, 0.0, -np.inf))),
    "a chosen mask of minus infinity": _weigh(lambda s, m: keras.ops.softmax(keras.ops.where(m, s, -np.inf))),
    "a scale of zero": _weigh(lambda s, m: keras.ops.softmax(s * 0.0)),
    "a negative scale": _weigh(lambda s, m: keras.ops.softmax(s * -0.5)),
    "a scale of zero, by name": _scale_by_name(0.0),
    "a negative scale, by name": _scale_by_name(-0.5),
    "a mask of more examples than the scores": _mask_of_more_examples,
    "channels": _attend_over_channels,
}


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("form", STAYING.values(), ids=STAYING)
def test_attention_that_the_operator_computes_otherwise_stays(form, tmp_path):
    operators = _operators_of(form() if form is Learned else Called(form), 4, tmp_path, 23)
    assert (operators["Attention"], operators["Softmax"]) == (0, 1)


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
    path = export_onnx(model, tmp_path / "model.onnx").path
    (actual,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    assert not actual[0, :, 1].any()
    # Thrice an exponential, a sum and a quotient of numbers up to 1.
    np.testing.assert_allclose(actual, model(given), rtol=0, atol=3 * 4 * 2**-24)
    assert [node.op_type for node in onnx.load(path).graph.node].count("Where") == 1


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
    operators = collections.Counter(node.op_type for node in onnx.load(artifact.path).graph.node)
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
    (actual,) = onnx_results(attend, given, tmp_path)
    # Sums of at most eight products of numbers around one, in two products a call: 2**-24 each.
    np.testing.assert_allclose(actual, keras_results(attend, given)[0], rtol=0, atol=100 * 2**-24)
    graph = onnx.load(tmp_path / "calls.onnx").graph
    operators = collections.Counter(node.op_type for node in graph.node)
    assert operators["Where"] == 2  # with and without what comes later
    assert operators["And"] == 1


@pytest.mark.slow_rows(8)
@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 23, 25])
@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kind", [L.MultiHeadAttention, L.GroupQueryAttention])
def test_attention_is_one_operator_from_the_set_that_has_it_and_selects_no_scores(
    kind, dropout, use_causal_mask, opset, tmp_path
):
    keras.utils.set_random_seed(0)
    layer = kind(2, 4, dropout=dropout) if kind is L.MultiHeadAttention else kind(4, 4, 2, dropout=dropout)
    x, mask = keras.Input((None, 8), name="x"), keras.Input((None, None), dtype="bool", name="mask")
    model = keras.Model([x, mask], layer(x, x, attention_mask=mask, use_causal_mask=use_causal_mask))
    artifact = export_onnx(model, tmp_path / "model.onnx", opset_version=opset)
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(2, 5, 8)).astype("float32"), "mask": rng.random((2, 5, 5)) < 0.5}
    given["mask"][0, 1] = False  # with dropout it takes nothing, without the mean of all
    session = onnxruntime.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    # Sums of at most eight products of numbers around one, four times over: 2**-24 each.
    np.testing.assert_allclose(session.run(None, given)[0], model(given), rtol=0, atol=200 * 2**-24)
    graph = onnx.load(artifact.path).graph
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
    keras.utils.set_random_seed(0)
    layer = kind(2, 4, dropout=dropout) if kind is L.MultiHeadAttention else kind(4, 4, 2, dropout=dropout)
    x, mask = keras.Input((None, 8), name="x"), keras.Input((None, None), dtype=dtype, name="mask")
    model = keras.Model([x, mask], layer(x, x, attention_mask=mask, use_causal_mask=use_causal_mask))
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(2, 5, 8)).astype("float32")}
    given["mask"] = rng.choice(np.array([-7, -0.4, 0, 0.4, 1, 7]), (2, 5, 5)).astype(dtype)
    for opset in (18, 23):
        path = export_onnx(model, tmp_path / "model.onnx", opset_version=opset).path
        (actual,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
        # Sums of at most eight products of numbers around one, four times over: 2**-24 each.
        np.testing.assert_allclose(actual, model(given), rtol=0, atol=200 * 2**-24)


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
