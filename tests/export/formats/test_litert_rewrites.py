"""Operators of a LiteRT file are rewritten with the same results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe.export import export_litert
from keras_pe.export.artifacts.litert_operators import Operator, read_operators
from keras_pe.export.formats.litert_devices import find_refusals
from keras_pe.export.formats.litert_rewrites import rewritten
from keras_pe.export.formats.litert_targets import MOST_AXES, TARGETS
from keras_pe.export.graph.litert_forms import litert_forms


def convert(function: Callable[[Any], Any], *shape: int, has_fourier: bool = True) -> bytes:
    """Returns a LiteRT file of a function of one float32 tensor."""
    import tensorflow as tf

    traced = tf.function(function, input_signature=[tf.TensorSpec(shape, "float32", name="x")])
    with litert_forms(has_fourier=has_fourier):
        concrete = traced.get_concrete_function()
    return bytes(tf.lite.TFLiteConverter.from_concrete_functions([concrete], traced).convert())


def run(content: bytes, x: Any) -> Any:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def kinds(content: bytes) -> set[str]:
    return {operator.kind for operator in read_operators(content)}


def wide_operators(content: bytes) -> list[Operator]:
    found = read_operators(content)
    return [each for each in found if any(len(tensor.shape) > MOST_AXES for tensor in (*each.inputs, *each.outputs))]


def windows(x: Any) -> Any:
    x = ops.transpose(ops.reshape(x, (1, 2, 4, 3, 2, 5)), (0, 1, 3, 2, 4, 5))
    return ops.softmax(ops.reshape(x * 2.0, (6, 8, 5)))


def mix_six_axes(x: Any) -> Any:
    y = ops.transpose(ops.reshape(x, (2, 4, 3, 2, 1, 5)), (5, 2, 0, 4, 3, 1))
    y = ops.concatenate([y[:, 1:], ops.flip(y, 0)[:, :1]], axis=1) + ops.mean(y, axis=(0, 3), keepdims=True)
    return ops.reshape(y, (-1, 4))


def mix_five_axes(x: Any) -> Any:
    y = ops.pad(ops.reshape(x, (2, 4, 3, 2, 5)), ((0, 0), (1, 0), (0, 0), (0, 2), (0, 0)))
    y = ops.stack(ops.unstack(y[:, ::2, :, 1:], axis=2), axis=1)
    y = ops.where(y > 0, ops.cumsum(ops.tile(y, (1, 1, 2, 1, 1))[:, :, :3], axis=3), y)
    return ops.reshape(ops.softmax(ops.matmul(y, ops.transpose(y[:1], (0, 1, 2, 4, 3)))), (-1, 3))


def gather_pairs(x: Any) -> Any:
    import tensorflow as tf

    return tf.gather_nd(x, tf.cast(tf.abs(x[:, :3, :2]), "int32"))


def one_part(x: Any) -> Any:
    import tensorflow as tf

    (part,) = tf.split(ops.reshape(x, (2, 4, 6, 5, 1)), 1, axis=2)
    return ops.reshape(part * 3.0, (8, 30))


def attend(x: Any) -> Any:
    query, key, value = ops.unstack(ops.reshape(x, (8, 2, 3, 5, 1)), axis=2)
    return ops.reshape(query * key + value, (8, 10))


CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a broadcast": (lambda x: ops.broadcast_to(x[..., None], (8, 6, 5, 3)), "BROADCAST_TO"),
    "a broadcast of truth values": (lambda x: ops.broadcast_to((x > 0)[None], (2, 8, 6, 5)), "BROADCAST_TO"),
    "rows by places in two axes": (lambda x: ops.take(x, ops.cast(ops.abs(x[0]), "int32"), axis=1), ""),
    "entries by pairs": (gather_pairs, "GATHER_ND"),
    "places in a batch": (lambda x: ops.take_along_axis(x, ops.argsort(x, axis=1), axis=1), ""),
    "a slice without an axis": (lambda x: x[:, 2, ::2], ""),
    "a slice of all integers": (lambda x: ops.cast(x * 9, "int32")[:, :6] + 1, "STRIDED_SLICE"),
    "a slice backwards": (lambda x: x[::-1, 1:, ::-2], ""),
    "windows of six axes": (windows, ""),
    "six axes": (mix_six_axes, ""),
    "five axes": (mix_five_axes, ""),
    "a running sum of integers": (lambda x: ops.cumsum(ops.cast(x * 9, "int32"), axis=0), "CUMSUM"),
    "a choice of rows": (lambda x: ops.where(x > 0, ops.cast(x[:1] * 9, "int32"), ops.cast(x > 1, "int32")), ""),
    "a logarithm of shares": (lambda x: ops.log_softmax(x), "LOG_SOFTMAX"),
    "a sum of halves": (lambda x: ops.add(*ops.split(x, 2, axis=1)), "SPLIT"),
    "parts in another order": (lambda x: ops.concatenate(ops.split(x, [1, 3], axis=-1)[::-1], -1), "SPLIT_V"),
    "one part of five axes": (one_part, "SPLIT"),
    "parts of five axes": (attend, "UNPACK"),
    "rows at places": (lambda x: ops.take_along_axis(x, ops.argmax(x[:, :, :1], axis=1, keepdims=True), axis=1), ""),
    "the least place": (lambda x: ops.argmin(x, axis=-1), "ARG_MIN"),
}


@pytest.mark.quick_rows(4)
@pytest.mark.parametrize("name", CASES)
def test_a_rewritten_file_computes_the_same_in_operators_of_a_gpu(name: str) -> None:
    function, kind = CASES[name]
    content = convert(function, 8, 6, 5)
    found = rewritten(content, TARGETS["gpu"], {})
    assert not kind or kind in kinds(content) - kinds(found)
    assert not {"SPLIT", "SPLIT_V"} & (kinds(found) | kinds(rewritten(content, TARGETS["npu"], {})))
    assert not list(find_refusals(read_operators(found), TARGETS["gpu"]))
    assert not wide_operators(found)
    x = np.random.default_rng(0).standard_normal((8, 6, 5)).astype("float32")
    np.testing.assert_allclose(run(found, x), np.asarray(function(x)), rtol=1e-5, atol=1e-6)


def test_a_device_without_a_square_gets_a_product() -> None:
    content = convert(lambda x: -ops.square(x), 2, 3)
    found = rewritten(content, TARGETS["npu"], {})
    assert kinds(found) == {"MUL"}
    assert kinds(rewritten(content, TARGETS["gpu"], {})) == {"NEG", "SQUARE"}


@pytest.mark.parametrize("name", ["depth_to_space", "space_to_depth"])
def test_a_device_without_depth_to_space_gets_a_transpose(name: str) -> None:
    import tensorflow as tf

    content = convert(lambda x: getattr(tf.nn, name)(x, 2), 2, 4, 6, 12)
    found = rewritten(content, TARGETS["npu"], {})
    assert name.upper() in kinds(content)
    assert kinds(found) == {"RESHAPE", "TRANSPOSE"}
    x = np.random.default_rng(0).standard_normal((2, 4, 6, 12)).astype("float32")
    np.testing.assert_array_equal(run(found, x), run(content, x))


@pytest.mark.parametrize("approximate", [False, True])
def test_a_device_without_a_gelu_gets_its_formula(approximate: bool) -> None:
    content = convert(lambda x: ops.gelu(x, approximate=approximate), 4000, 3)
    found = rewritten(content, TARGETS["micro"], {})
    assert kinds(content) == {"GELU"}
    assert not list(find_refusals(read_operators(found), TARGETS["micro"]))
    x = np.linspace(-12, 12, 12000, dtype="float32").reshape(4000, 3)
    # Ten roundings of numbers up to 2, each multiplied by the half of a number up to 12.
    np.testing.assert_allclose(run(found, x), run(content, x), atol=10 * 2.0**-24 * 6, rtol=4 * 2.0**-24)


def test_a_device_without_a_fourier_transform_gets_products() -> None:
    def spectrum(x: Any) -> Any:
        return ops.concatenate(ops.rfft(x), -1)

    found = convert(spectrum, 2, 64, has_fourier=False)
    assert kinds(convert(spectrum, 2, 64)) - kinds(found) >= {"RFFT2D", "REAL", "IMAG"}
    x = np.random.default_rng(0).standard_normal((2, 64)).astype("float32")
    exact = np.fft.rfft(x.astype("float64"))
    # Sums of 64 products, each rounded twice to 2**-24 of the largest value.
    np.testing.assert_allclose(run(found, x), np.concatenate([exact.real, exact.imag], -1), atol=128 * 2**-24 * 32)


def test_a_device_without_any_gets_the_largest_number() -> None:
    content = convert(lambda x: ops.cast(ops.any(x > 0, axis=-1, keepdims=True), "float32"), 4, 2)
    found = rewritten(content, TARGETS["micro"], {})
    assert kinds(content) - kinds(found) == {"REDUCE_ANY"}
    x = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]], np.float32)
    np.testing.assert_array_equal(run(found, x), [[1], [1], [1], [0]])


@pytest.mark.parametrize("compare", [ops.equal, ops.not_equal])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_a_device_without_equality_compares_by_less_and_greater(dtype: str, compare: Callable[..., Any]) -> None:
    ends = {"int32": [-(2**31), -1, 0, 1, 2**31 - 1], "float32": [np.nan, -np.inf, -0.0, 0, np.inf]}
    values = np.array(ends[dtype], dtype)

    def function(x: Any) -> Any:
        indices = ops.cast(x, "int32")
        return ops.cast(compare(ops.take(values, indices), ops.take(values, ops.transpose(indices))), "float32")

    content = convert(function, 5, 1)
    found = rewritten(content, TARGETS["npu"], {})
    assert kinds(content) & {"EQUAL", "NOT_EQUAL"}
    assert not kinds(found) & {"EQUAL", "NOT_EQUAL"}
    x = np.arange(5, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(run(found, x), compare(values[:, None], values[None]))


def test_a_microcontroller_chooses_integers_by_products() -> None:
    content = convert(lambda x: ops.where(x > 0, ops.cast(x[:1] * 9, "int32"), -7), 4, 3)
    found = rewritten(content, TARGETS["micro"], {})
    assert kinds(content) - kinds(found) == {"SELECT_V2"}
    x = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    np.testing.assert_array_equal(run(found, x), run(content, x))


FLAGS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "gathers": (lambda x: ops.take(x > 0, ops.cast(x[0], "int32"), axis=0), "GATHER"),
    "transposes": (lambda x: ops.transpose(x > 0), "TRANSPOSE"),
    "unstacks and stacks": (lambda x: ops.stack(ops.unstack(x > 0, axis=1)[::-1]), "UNPACK"),
    "casts to": (lambda x: ops.cast(x, "bool"), "CAST"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_microcontroller_moves_truth_values_in_types_of_its_kernels(name: str) -> None:
    function, kind = FLAGS[name]
    content = convert(lambda x: ops.cast(function(x), "float32"), 4, 3)
    found = rewritten(content, TARGETS["micro"], {})
    assert kind in {each.kind for each in read_operators(content)}
    assert not list(find_refusals(read_operators(found), TARGETS["micro"]))
    x = np.array([[0, 2, 3], [-1, 1, 0], [1, -1, 1], [0, 0, -2]], np.float32)
    np.testing.assert_array_equal(run(found, x), run(content, x))


def test_a_mask_of_a_softmax_is_in_the_range_of_float16() -> None:
    content = convert(lambda x: ops.softmax(ops.where(x > 0, x, -2e38)) + ops.where(x > 9, x, -1e9), 4, 6)
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    found = rewritten(content, TARGETS["gpu"], {})
    np.testing.assert_array_equal(run(found, x), run(content, x))
    assert {np.float32(-2e38)} <= stored_values(content) - stored_values(found)
    assert {np.float32(-3e4), np.float32(-1e9)} <= stored_values(found)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_output_of_16_bits_is_float32_without_a_cast(dtype: str) -> None:
    content = convert(lambda x: ops.reshape(ops.cast(ops.tanh(x), dtype), (3, 2)), 2, 3)
    found = rewritten(content, TARGETS["gpu"], {})
    x = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")
    assert kinds(found) == {"TANH", "RESHAPE"}
    assert run(found, x).dtype == np.float32
    np.testing.assert_allclose(run(found, x), run(content, x).astype("float32"), atol=2**-8)


def stored_values(content: bytes) -> set[Any]:
    """Returns the scalars that the operators of a file read."""
    from ai_edge_litert import schema_py_generated as schema

    from keras_pe.export.artifacts.litert_editor import Editor

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    editor = Editor(model, model.subgraphs[0])
    read = {int(number) for operator in model.subgraphs[0].operators for number in operator.inputs}
    values = [editor.values(number) for number in read]
    return {each.ravel()[0] for each in values if each is not None and each.size == 1}


@pytest.mark.slow
def test_equal_outputs_of_a_file_for_a_target_are_tensors_of_their_own(tmp_path: Path) -> None:
    from ai_edge_litert.compiled_model import CompiledModel

    x = keras.Input((3,), name="x")
    y = keras.layers.Dense(2)(x)
    artifact = export_litert(
        keras.Model(x, {"first": y, "again": y, "short": keras.ops.cast(y, "bfloat16")}),
        tmp_path / "model.tflite",
        target="gpu",
    )
    model = CompiledModel.from_file(str(artifact.path))
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(np.ones((1, 3), np.float32))
    model.run_by_index(0, inputs, outputs)
    first, again, short = (each.read(2, np.float32) for each in outputs)
    assert first.any()
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, short)
    assert [each.dtype for each in artifact.outputs] == ["float32"] * 3


TABLE = np.random.default_rng(1).standard_normal((9, 4)).astype("float32")


def masked_scores(x: Any) -> Any:
    scores = ops.matmul(x, ops.transpose(x, (0, 2, 1)))
    return ops.softmax(ops.where(ops.logical_and(x[:, :, :1] > 0, x[:, :, 1:2] < 1), scores, -1e4))


WITHOUT: dict[str, Callable[[Any], Any]] = {
    "rows of a table": lambda x: ops.take(TABLE, ops.cast(ops.abs(x[..., 0]) * 3, "int32"), axis=0),
    "known places": lambda x: ops.take(x, [3, 0, 3], axis=1),
    "a masked softmax": masked_scores,
    "a masked step": lambda x: ops.where(ops.any(ops.not_equal(x, 0), -1, keepdims=True), x, 0.0),
    "a choice of integers": lambda x: ops.where(x > 0, ops.cast(x * 9, "int32"), ops.cast(x * -5, "int32")),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_device_without_lookups_and_choices_gets_products(name: str) -> None:
    content = convert(WITHOUT[name], 2, 4, 4)
    assert {"GATHER", "SELECT", "SELECT_V2"} & kinds(content)
    found = rewritten(content, TARGETS["npu"], {})
    assert not list(find_refusals([each for each in read_operators(found) if each.kind != "CAST"], TARGETS["npu"]))
    x = np.random.default_rng(0).uniform(-2, 2, (2, 4, 4)).astype("float32")
    x[0, 1:3] = 0
    np.testing.assert_array_equal(run(found, x), run(content, x))


@pytest.mark.parametrize(
    "choose", [lambda x: ops.where(x > 0, ops.log(x), 0.0), lambda x: ops.where(x < 9, ops.exp(x), 0.0)]
)
def test_a_choice_that_may_be_infinite_stays(choose: Callable[[Any], Any]) -> None:
    found = kinds(rewritten(convert(choose, 2, 4), TARGETS["npu"], {}))
    assert {"SELECT", "SELECT_V2"} & found


def test_a_device_with_the_newer_choice_gets_no_products() -> None:
    content = convert(lambda x: ops.where(x > 0, x, ops.tanh(x)), 2, 4)
    assert "SELECT_V2" in kinds(rewritten(content, TARGETS["micro"], {}))
    assert "MUL" not in kinds(rewritten(content, TARGETS["micro"], {}))


JOINS: dict[str, Callable[[Any], Any]] = {
    "copies": lambda x: ops.tile(x, (11, 12, 13)),
    "many copies": lambda x: ops.tile(x, (1, 97, 1)),
    "columns": lambda x: ops.concatenate([x[:, :1] * factor for factor in range(111)], axis=1),
}


@pytest.mark.parametrize("name", JOINS)
def test_a_microcontroller_joins_ten_tensors_at_most(name: str) -> None:
    content = convert(JOINS[name], 2, 3, 4)
    found = rewritten(content, TARGETS["micro"], {})
    joins = [len(each.inputs) for each in read_operators(found) if each.kind == "CONCATENATION"]
    assert max(joins) <= 10
    assert "TILE" not in kinds(found)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    np.testing.assert_array_equal(run(found, x), run(content, x))
