"""A sweep and a data set are one check: what an artifact does passes in both, or in none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import onnx
import pytest
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export import Acceptance, check_dataset, check_parity, export_onnx
from keras_pe.export.parity.work.executors import ProcessPool
from tests.raised import about

ROWS = {"x": np.random.default_rng(0).standard_normal((40, 4)).astype(np.float32)}
HALF = {"precision": "float16"}


def write(path: Path, change: Callable[[onnx.GraphProto], None]) -> Path:
    """Writes `y = x @ w`, and what a change makes of it."""
    w = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["taken"]), helper.make_node("MatMul", ["taken", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(w, "w")],
    )
    change(graph)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


def sound(graph: onnx.GraphProto) -> None:
    """Changes nothing."""


def rename_tensors(graph: onnx.GraphProto) -> None:
    graph.input[0].name = graph.node[0].input[0] = "args_0"
    graph.output[0].name = graph.node[1].output[0] = "output_0"


def with_another_output(graph: onnx.GraphProto) -> None:
    graph.node.append(helper.make_node("Neg", ["y"], ["more"]))
    graph.output.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, ["batch", 3]))


def in_float64(graph: onnx.GraphProto) -> None:
    _returning(graph, helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.DOUBLE))
    graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE


def in_float16(graph: onnx.GraphProto) -> None:
    _returning(graph, helper.make_node("Cast", ["narrow"], ["y"], to=TensorProto.FLOAT16))
    graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    graph.node[0].CopyFrom(helper.make_node("Cast", ["x"], ["taken"], to=TensorProto.FLOAT))


def larger_by_a_hundredth(graph: onnx.GraphProto) -> None:
    graph.initializer.append(numpy_helper.from_array(np.float32(1.01), "factor"))
    _returning(graph, helper.make_node("Mul", ["narrow", "factor"], ["y"]))


def _returning(graph: onnx.GraphProto, last: onnx.NodeProto) -> None:
    """Lets a node make the output from what was the output."""
    graph.node[1].output[0] = "narrow"
    graph.node.append(last)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("policy") / "model.onnx", sound)


@pytest.mark.slow_rows(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "accepted", "passes"),
    [
        (sound, {}, True),
        (rename_tensors, {}, True),
        (with_another_output, {}, False),
        (in_float64, {}, False),
        (in_float16, {}, False),
        (in_float16, HALF, True),
        (larger_by_a_hundredth, {}, False),
        (larger_by_a_hundredth, {"rtol": 0.0101}, True),
        # Values below 1 have a tolerance of 1e-5 by their type, or a thousandth of the input by the user. The two are
        # not added.
        (larger_by_a_hundredth, {"rtol": 0.01 - 1e-6}, False),
        (larger_by_a_hundredth, {"atol": 0.1}, True),
    ],
)
def test_both_say_the_same(
    model: Path, tmp_path: Path, change: Callable[[onnx.GraphProto], None], accepted: dict[str, Any], passes: bool
) -> None:
    artifact = write(tmp_path / "artifact.onnx", change)
    options: dict[str, Any] = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 0.0}
    sweep = check_parity(model, artifact, inputs=ROWS, **accepted, **options)
    rows = check_dataset(model, artifact, ROWS, workers=0, acceptance=Acceptance(**accepted), **options)
    assert (sweep.passed, rows.passed) == (passes, passes), f"{sweep}\n{rows}"


@pytest.mark.slow
def test_an_artifact_that_no_runtime_takes_has_failed_and_is_named(model: Path, tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "folder"))
    artifacts = [write(tmp_path / "artifact.onnx", sound), tmp_path / "folder"]
    options: dict[str, Any] = {"runtimes": "onnxruntime[all]"}
    alone = r"Received: onnxruntime\[all\] for .*folder. Choose one of: tensorflow"
    with pytest.raises(ValueError, match=alone):
        check_parity(model, tmp_path / "folder", inputs=ROWS, **options)
    with pytest.raises(ValueError, match=alone):
        check_dataset(model, tmp_path / "folder", ROWS, workers=0, **options)
    sweep = check_parity(model, artifacts, inputs=ROWS, **options)
    rows = check_dataset(model, artifacts, ROWS, workers=0, **options)
    for report in (sweep, rows):
        found = [(each.runtime, each.passed) for each in report.results]
        assert found == [("onnxruntime[all]", True), ("none", False)], str(report)
        assert not report.passed
        said = " ".join(str(report).split())
        assert "runtime accepts tf_saved_model" in said


@pytest.mark.slow
def test_other_names_are_matched_in_every_worker_and_told(model: Path, pool: ProcessPool, tmp_path: Path) -> None:
    artifact = write(tmp_path / "artifact.onnx", rename_tensors)
    report = check_dataset(model, artifact, ROWS, workers=pool, runtimes="onnxruntime[all]")
    assert report.passed, str(report)
    assert {each.model: each.artifact for each in report.results[0].names} == {"x": "args_0", "y": "output_0"}
    said = "artifact.onnx has other names than the model: input 'x' is 'args_0', output 'y' is 'output_0'"
    assert said in " ".join(str(report).split())


def half_model() -> keras.Model:
    values = keras.Input((4,), name="x", dtype="float32")
    return keras.Model(values, keras.layers.Dense(3, dtype="float16", name="y")(values))


def with_larger_weights(path: Path, factor: float) -> None:
    """Multiplies what a file has of floats."""
    file = onnx.load(path)
    for tensor in file.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.ndim:
            tensor.CopyFrom(numpy_helper.from_array(array * np.float32(factor), tensor.name))
    onnx.save(file, path)


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.0005, False)])
def test_a_model_that_computes_in_float32_is_measured_in_float32(
    pool: ProcessPool, tmp_path: Path, factor: float, passes: bool
) -> None:
    """Half a thousandth is no more than rounding to 16 bits is, and thousands of roundings of float32."""
    model = half_model()
    export_onnx(model, tmp_path / "model.onnx")
    with_larger_weights(tmp_path / "model.onnx", factor)
    options: dict[str, Any] = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 0.0}
    sweep = check_parity(model, tmp_path / "model.onnx", inputs=ROWS, **options)
    for workers in (0, pool):
        rows = check_dataset(model, tmp_path / "model.onnx", ROWS, workers=workers, **options)
        assert (sweep.passed, rows.passed) == (passes, passes), f"{sweep}\n{rows}"
        assert "float32 rebuild" in rows.reference


@pytest.mark.slow
@pytest.mark.parametrize(("offset", "passes"), [(1e-3, True), (1.0, False)])
@pytest.mark.parametrize("tolerance", [{}, {"atol": 1e-7}])
def test_a_row_on_which_the_model_is_right_by_luck_is_measured_next_to_it(
    tmp_path: Path, offset: float, passes: bool, tolerance: dict[str, float]
) -> None:
    """Large whole numbers that cancel are exact; weights next to these leave a rounding of large numbers."""
    kernel = np.array([[4096], [-4096], [1]], np.float32)
    values = keras.Input((3,), name="x")
    model = keras.Model(values, keras.layers.Dense(1, use_bias=False, name="y")(values))
    model.set_weights([kernel])
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "kernel", "offset"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(kernel, "kernel"), numpy_helper.from_array(np.float32([offset]), "offset")],
    )
    path = tmp_path / "artifact.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    whole = {"x": np.random.default_rng(0).integers(1, 9, (40, 2))[:, [0, 0, 1]].astype(np.float32)}
    options: dict[str, Any] = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 0.0}
    sweep = check_parity(model, path, inputs=whole, **tolerance, **options)
    rows = check_dataset(model, path, whole, workers=0, acceptance=Acceptance(**tolerance), **options)
    assert (sweep.passed, rows.passed) == (passes, passes), f"{sweep}\n{rows}"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A classifier whose probabilities decide, and its artifact."""
    folder = tmp_path_factory.mktemp("classifier")
    keras.utils.set_random_seed(0)
    values = keras.Input((4,), name="x")
    hidden = keras.layers.Dense(24, "relu", name="hidden")(values)
    model = keras.Model(values, keras.layers.Dense(3, "softmax", name="y")(hidden))
    model.save(folder / "model.keras")
    return folder / "model.keras", export_onnx(model, folder / "model.onnx").path


def as_exported(file: onnx.ModelProto) -> None:
    """Changes nothing."""


def in_bfloat16(file: onnx.ModelProto) -> None:
    """Rounds every weight."""
    for tensor in file.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype == np.float32:
            rounded = array.astype(ml_dtypes.bfloat16).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))


def with_another_bias(file: onnx.ModelProto) -> None:
    """Adds 0.01 to a bias, which changes hardly any decision."""
    (bias,) = [tensor for tensor in file.graph.initializer if tensor.name == "hidden/bias"]
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) + np.float32(0.01), bias.name))


def with_negated_scores(file: onnx.ModelProto) -> None:
    """Decides by the smallest score."""
    last = next(node for node in file.graph.node if node.op_type == "Softmax")
    place = list(file.graph.node).index(last)
    file.graph.node.insert(place, helper.make_node("Neg", [last.input[0]], ["negated"]))
    last.input[0] = "negated"


def with_a_false_declaration(file: onnx.ModelProto) -> None:
    """Declares one column more than the file returns."""
    file.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4


@pytest.mark.slow_rows(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "accepted", "passes"),
    [
        (as_exported, {}, True),
        (in_bfloat16, {"precision": "bfloat16"}, True),
        (in_bfloat16, {"atol": 0.1}, True),
        (with_another_bias, {"atol": 10.0}, False),
        (with_another_bias, {"precision": "float16", "allow_changed": 1.0}, False),
        (with_negated_scores, {"atol": 10.0}, False),
        (with_negated_scores, {"precision": "int8"}, False),
        (with_negated_scores, {"allow_changed": 1.0}, True),
        (with_a_false_declaration, {}, False),
        (with_a_false_declaration, {"atol": 10.0}, False),
    ],
)
def test_both_compare_decisions_stored_weights_and_declarations(
    classifier: tuple[Path, Path],
    tmp_path: Path,
    change: Callable[[onnx.ModelProto], None],
    accepted: dict[str, Any],
    passes: bool,
) -> None:
    model, sound_file = classifier
    file = onnx.load(sound_file)
    change(file)
    onnx.save(file, tmp_path / "artifact.onnx")
    options: dict[str, Any] = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 0.0}
    sweep = check_parity(model, tmp_path / "artifact.onnx", inputs=ROWS, **accepted, **options)
    acceptance = Acceptance(**accepted)
    rows = check_dataset(model, tmp_path / "artifact.onnx", ROWS, workers=0, acceptance=acceptance, **options)
    assert (sweep.passed, rows.passed) == (passes, passes), f"{sweep}\n{rows}"
    if change is with_another_bias:
        assert [each.layer for each in rows.results[0].findings] == ["hidden"]
    if change is as_exported:
        assert rows.results[0].weights == sweep.results[0].weights


@pytest.mark.slow
@pytest.mark.parametrize(("value", "counted"), [(np.nan, 10), (3e38, 10), (1.0, 40)])
def test_both_fail_if_less_than_a_half_was_compared(tmp_path: Path, value: float, counted: int) -> None:
    values = keras.Input((4,), name="x")
    dense = keras.layers.Dense(3, kernel_initializer="ones", name="y")
    model = keras.Model(values, dense(values))
    export_onnx(model, tmp_path / "model.onnx")
    rows = ROWS["x"].copy()
    rows[10:] = value
    options: dict[str, Any] = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 0.0}
    for least in (counted / 40, counted / 40 + 0.01):
        given = {"least_compared": min(least, 1.0)}
        sweep = check_parity(model, tmp_path / "model.onnx", inputs={"x": rows}, **given, **options)
        acceptance = Acceptance(**given)
        found = check_dataset(model, tmp_path / "model.onnx", {"x": rows}, workers=0, acceptance=acceptance, **options)
        assert sweep.passed == found.passed == (min(least, 1.0) <= counted / 40)
        assert sweep.results[0].compared_share == found.results[0].compared_share == counted / 40
    with pytest.raises(ValueError, check=about("least_compared")):
        Acceptance(least_compared=2.0)
