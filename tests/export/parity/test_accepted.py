"""A file that differs on purpose: the user says what is accepted, and the report still says where and why."""

import json

import keras
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.transformers.float16 import convert_float_to_float16

from keras_pe.export import (
    Acceptance,
    Cause,
    assert_parity,
    check_dataset,
    check_parity,
    export_onnx,
    export_saved_model,
)
from keras_pe.export.artifacts.litert_file import quantized_constants
from keras_pe.export.records import Allowance

pytestmark = pytest.mark.slow
ONE = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 10}
REDUCED = {"reduce_range": True}  # Without VNNI, ONNX Runtime's sums of two products of 8 bits saturate at 16 bits.


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A classifier with a table and a normalization, and its file in float32, float16 and int8, sound and damaged."""
    folder = tmp_path_factory.mktemp("accepted")
    keras.utils.set_random_seed(5)
    ids, x = keras.Input((None,), dtype="int32", name="ids"), keras.Input((8,), name="x")
    rows = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(50, 8, name="table")(ids))
    hidden = keras.layers.LayerNormalization()(keras.layers.Dense(16, "relu", name="hidden")(rows + x))
    model = keras.Model([ids, x], keras.layers.Dense(5, "softmax", name="class")(hidden))
    model.save(folder / "model.keras")
    plain = onnx.load(export_onnx(model, folder / "m.onnx").path)
    for name, keeps in (("half", True), ("narrow", False)):
        onnx.save(convert_float_to_float16(plain, keep_io_types=keeps), folder / f"{name}.onnx")
    quantize_dynamic(folder / "m.onnx", folder / "int8.onnx", weight_type=QuantType.QUInt8)
    for name in ("half", "int8"):
        stored = onnx.load(folder / f"{name}.onnx")
        kernel = next(each for each in stored.graph.initializer if list(each.dims) == [8, 16])
        array = numpy_helper.to_array(kernel).copy()
        array[:4] = -array[:4]
        kernel.CopyFrom(numpy_helper.from_array(array, kernel.name))
        onnx.save(stored, folder / f"{name}_damaged.onnx")
    return model, folder


@pytest.mark.slow_rows(2)
@pytest.mark.parametrize(("name", "precision"), [("half", "float16"), ("narrow", "float16"), ("int8", "int8")])
def test_a_file_of_fewer_bits_fails_by_default_and_passes_where_its_precision_is_accepted(
    files, name, precision, monkeypatch
):
    model, folder = files
    assert not check_parity(model, folder / f"{name}.onnx", **ONE).passed
    monkeypatch.delattr("keras_pe.export.parity.diagnosis.diagnose.find_causes")  # nothing is searched beyond rounding
    report = check_parity(model, folder / f"{name}.onnx", precision=precision, **ONE)
    assert report.passed, str(report)
    (result,) = report.results
    assert result.is_accepted
    assert result.findings
    for rendered in (str(report), *(report.render(kind) for kind in ("html", "junit", "markdown"))):
        said = " ".join(rendered.split())
        assert f"rounding to {precision}" in said
        assert "fails the strict tolerance and is accepted" in said
    plain = json.loads(report.render("json"))
    assert plain["allowance"]["precision"] == precision
    assert plain["results"][0]["is_accepted"]
    left_out = [case.name for case in result.cases if "does not hold" in case.error]
    assert left_out == ["large values"]


@pytest.mark.parametrize(("name", "precision"), [("half", "float16"), ("int8", "int8")])
def test_a_damaged_file_of_fewer_bits_fails_though_its_precision_is_accepted(files, name, precision):
    model, folder = files
    report = check_parity(model, folder / f"{name}_damaged.onnx", precision=precision, **ONE)
    assert not report.passed
    assert not report.results[0].is_accepted


def _static(form):
    def write(source, path):
        rng = np.random.default_rng(0)

        class Reader(CalibrationDataReader):
            def __init__(self):
                self.left = iter([{"x": rng.standard_normal((8, 16), np.float32)} for _ in range(20)])

            def get_next(self):
                return next(self.left, None)

        quantize_static(source, path, Reader(), quant_format=form, **REDUCED)

    return write


def _int4(source, path):
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer  # takes a second

    quantizer = MatMulNBitsQuantizer(onnx.load(source), block_size=16, is_symmetric=True)
    quantizer.process()
    quantizer.model.save_model_to_file(str(path))


WRITERS = {
    "float16": lambda source, path: onnx.save(convert_float_to_float16(onnx.load(source)), path),
    "int8 dynamic": lambda source, path: quantize_dynamic(source, path, per_channel=True, **REDUCED),
    "int8 QDQ": _static(QuantFormat.QDQ),
    "int8 QOperator": _static(QuantFormat.QOperator),
    "int4": _int4,
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small network, and the folder with its SavedModel and rows for a calibration."""
    folder = tmp_path_factory.mktemp("litert")
    keras.utils.set_random_seed(0)
    x = keras.Input((16,), name="x")
    hidden = keras.layers.Dense(64, "relu", bias_initializer="random_normal", name="hidden")(x)
    model = keras.Model(x, keras.layers.Dense(3, bias_initializer="random_normal", name="out")(hidden))
    export_saved_model(model, folder / "saved")
    return model, folder, np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)


@pytest.mark.slow_rows(2)
@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "full integer"])
@pytest.mark.parametrize("damage", [0, 2], ids=["sound", "two steps"])
def test_an_int8_weight_of_a_litert_file_is_compared_by_the_steps_of_its_scale(saved, is_static, damage):
    import tensorflow as tf

    model, folder, rows = saved
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved"))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if is_static:
        converter.representative_dataset = lambda: ([row[np.newaxis]] for row in rows)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    content, file = converter.convert(), folder / "int8.tflite"
    file.write_bytes(content)
    (numbers, steps) = next(each for each in quantized_constants(file).values() if each[0].shape == (64, 16))
    stored = np.rint(numbers / steps).astype(np.int8)
    damaged = stored.copy()
    damaged[3] -= (damage * np.sign(stored[3])).astype(np.int8)
    assert content.count(stored.tobytes()) == 1
    file.write_bytes(content.replace(stored.tobytes(), damaged.tobytes()))
    report = check_parity(model, file, inputs={"x": rows[:40]}, precision="int8", diagnosis_seconds=10)
    assert report.passed == report.results[-1].is_accepted == (damage == 0), str(report)
    if damage:
        (finding,) = report.findings
        assert (finding.cause, finding.layer) == (Cause.CHANGED_VALUES, "hidden")


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    """A detector with boxes and scores as outputs, one whose output holds both, and the files of both."""
    folder = tmp_path_factory.mktemp("detector")
    keras.utils.set_random_seed(0)
    x = keras.Input((16,), name="x")
    hidden = keras.layers.Dense(32, "relu", name="hidden")(x)
    boxes = keras.layers.Rescaling(400.0, name="boxes")(keras.layers.Dense(4, name="corners")(hidden))
    scores = keras.layers.Dense(3, "sigmoid", name="scores")(hidden)
    apart = keras.Model(x, {"boxes": boxes, "scores": scores})
    joined = keras.Model(x, keras.layers.Concatenate(name="both")([boxes, scores]))
    export_onnx(apart, folder / "apart.onnx")
    export_onnx(joined, folder / "joined.onnx")
    return apart, joined, folder


@pytest.mark.slow_rows(2)
@pytest.mark.parametrize("form", WRITERS)
def test_a_sound_file_of_every_format_passes_with_every_weight_compared(detector, form):
    apart, _, folder = detector
    path = folder / f"{form}.onnx"
    WRITERS[form](folder / "apart.onnx", path)
    (result,) = check_parity(apart, path, precision=form.partition(" ")[0], **ONE).results
    assert (result.passed, result.is_accepted) == (True, True), result
    assert result.weights.compared == result.weights.count
    assert bool(result.quantized) == ("int" in form)


@pytest.mark.slow_rows(1)
@pytest.mark.parametrize("form", ["float16", "int8 dynamic", "int4"])
def test_negated_scores_fail_beside_boxes_of_another_scale_in_one_output(detector, form):
    _, joined, folder = detector
    sound, negated = folder / f"joined {form}.onnx", folder / f"negated {form}.onnx"
    WRITERS[form](folder / "joined.onnx", sound)
    stored = onnx.load(sound)
    last = next(node for node in stored.graph.node if node.op_type == "Concat")
    place = list(stored.graph.node).index(last)
    stored.graph.node.insert(place, onnx.helper.make_node("Neg", [last.input[1]], ["negated"]))
    last.input[1] = "negated"
    onnx.save(stored, negated)
    precision = form.partition(" ")[0]
    assert check_parity(joined, sound, precision=precision, **ONE).passed
    (result,) = check_parity(joined, negated, precision=precision, **ONE).results
    assert (result.passed, result.is_accepted) == (False, False)


@pytest.mark.parametrize("form", ["int8 QDQ", "int8 QOperator"])
def test_scores_that_one_scale_for_boxes_and_scores_rounds_away_fail(detector, form):
    _, joined, folder = detector
    path = folder / f"joined {form}.onnx"
    WRITERS[form](folder / "joined.onnx", path)
    assert not check_parity(joined, path, precision="int8", **ONE).passed


def test_a_sound_file_of_one_unit_passes(tmp_path):
    keras.utils.set_random_seed(3)
    x = keras.Input((16,), name="x")
    model = keras.Model(x, keras.layers.Dense(1, name="score")(x))
    WRITERS["int8 QDQ"](export_onnx(model, tmp_path / "one.onnx").path, tmp_path / "int8.onnx")
    (result,) = check_parity(model, tmp_path / "int8.onnx", precision="int8", **ONE).results
    assert (result.passed, result.is_accepted) == (True, True), result


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder of texts of any length, and files of static int8: sound, and made of damaged models."""
    folder = tmp_path_factory.mktemp("encoder")
    keras.utils.set_random_seed(0)
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(50, 32, name="table")(ids)
    x = keras.layers.LayerNormalization(name="after")(x + keras.layers.MultiHeadAttention(4, 8, name="attention")(x, x))
    x = keras.layers.GlobalAveragePooling1D(name="mean")(x)
    model = keras.Model(ids, keras.layers.Dense(5, "softmax", name="classes")(x))
    query, key = model.get_layer("attention").query_dense, model.get_layer("attention").key_dense
    query.set_weights([3 * each for each in query.get_weights()])  # attention that tells keys apart
    rng = np.random.default_rng(0)
    batches = [{"ids": rng.integers(0, 50, (8, length), dtype=np.int32)} for length in (1, 2, 8, 24)]

    class Batches(CalibrationDataReader):
        def __init__(self):
            self._batches = iter(batches)

        def get_next(self):
            return next(self._batches, None)

    def write(name):
        export_onnx(model, folder / f"{name}.onnx")

    write("sound")
    weights = model.get_weights()
    one, other = query.get_weights(), key.get_weights()
    query.set_weights(other)
    key.set_weights(one)
    write("exchanged")
    model.set_weights(weights)
    kernel, bias = model.get_layer("classes").get_weights()
    model.get_layer("classes").set_weights([-kernel, bias])
    write("negated")
    model.set_weights(weights)
    return model, folder, Batches


@pytest.mark.slow_rows(1)
@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
def test_an_encoder_in_static_int8_passes_at_every_length_and_a_damaged_one_fails(encoder, form):
    model, folder, batches = encoder
    passed = {}
    for name in ("sound", "exchanged", "negated"):
        path = folder / f"{name} {form}.onnx"
        quantize_static(folder / f"{name}.onnx", path, batches(), quant_format=form, **REDUCED)
        passed[name] = check_parity(model, path, precision="int8", **ONE).passed
    assert passed == {"sound": True, "exchanged": False, "negated": False}


@pytest.mark.parametrize("accepted", [{"precision": "int8"}, {"atol": 10.0}, {"rtol": 1.0}])
def test_a_bias_that_is_off_fails_and_is_named_whatever_is_accepted_of_the_outputs(detector, accepted):
    apart, _, folder = detector
    stored = onnx.load(folder / "apart.onnx")
    (bias,) = [each for each in stored.graph.initializer if each.name == "scores/bias"]
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.01), bias.name))
    onnx.save(stored, folder / "bias.onnx")
    (result,) = check_parity(apart, folder / "bias.onnx", **accepted, **ONE).results
    assert not result.passed
    assert (result.findings[0].layer, "'scores/bias'" in result.findings[0].evidence) == ("scores", True)


def test_tolerances_and_a_share_of_decisions_are_accepted_as_the_user_says(files):
    model, folder = files
    half = folder / "half.onnx"
    given = [{"ids": np.arange(12, dtype="int32").reshape(3, 4), "x": np.ones((3, 8), "float32")}]
    for accepted in ({"rtol": 0.01}, {"atol": 0.01}, {"atol": {"class": 0.01}}, {"allow_changed": 0.1}):
        report = assert_parity(model, half, inputs=given, **accepted, **ONE)
        assert report.results[0].is_accepted
        assert Cause.ROUNDED_VALUES in {finding.cause for finding in report.findings}
    for too_little in ({"rtol": 1e-9}, {"atol": 1e-9}):
        assert not check_parity(model, half, inputs=given, **too_little, **ONE).passed


def test_an_unneeded_acceptance_is_not_reported(files):
    model, folder = files
    given = [{"ids": np.arange(12, dtype="int32").reshape(3, 4), "x": np.ones((3, 8), "float32")}]
    report = check_parity(model, folder / "m.onnx", inputs=given, precision="float16", **ONE)
    assert (report.passed, report.results[0].is_accepted, report.findings) == (True, False, ())


def test_rows_of_a_data_set_are_accepted_as_a_sweep_is(files):
    _, folder = files
    rng = np.random.default_rng(2)
    rows = {"ids": rng.integers(0, 50, (40, 6), np.int32), "x": rng.normal(size=(40, 8)).astype("float32")}

    def check_accepted(name, **accepted):
        acceptance = Acceptance(decisions={"class": None}, **accepted)
        report = check_dataset(
            folder / "model.keras", folder / f"{name}.onnx", rows, acceptance=acceptance, workers=0, **ONE
        )
        assert report.allowance == Allowance(**accepted)
        return report.passed

    assert not check_accepted("half")
    assert check_accepted("half", precision="float16")
    assert check_accepted("half", rtol=0.05)
    assert check_accepted("half", atol=0.01)
    assert not check_accepted("half_damaged", precision="float16")
