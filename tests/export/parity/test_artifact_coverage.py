"""Stored weights of an artifact are compared with the model's, and branches without a case are named."""

import keras
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import keras_pe
from keras_pe.export import check_parity, export_litert, export_onnx, export_saved_model
from keras_pe.export.parity.diagnosis.weights import stored_weights
from keras_pe.export.runtimes.runtime import LazyArrays

ROWS = 30_000


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    ids = keras.Input((1,), dtype="int32", name="ids")
    x = keras.layers.Flatten()(keras.layers.Embedding(ROWS, 4, name="table")(ids))
    return keras.Model(ids, keras.layers.Dense(2, name="head")(x))


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    return export_onnx(model, tmp_path_factory.mktemp("file") / "m.onnx").path


def _constants(model):
    return {variable.path: variable.numpy() for variable in model.weights}


def _with_damage(file, path, name, damage):
    stored = onnx.load(file)
    (tensor,) = [each for each in stored.graph.initializer if each.name == name]
    array = numpy_helper.to_array(tensor).copy()
    damage(array)
    tensor.CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(stored, path)
    return path


def _nan_in_last(array):
    array[-1] = np.nan


def _negated_row(array):
    array[39] = -array[39]


@pytest.mark.slow
def test_damage_in_a_row_that_no_case_reads_fails_the_check_and_names_weight_and_row(model, file, tmp_path):
    sound, *damaged = (
        check_parity(model, each, inputs=[{"ids": np.zeros((2, 1), np.int32)}], runtimes="onnxruntime[all]")
        for each in (
            file,
            _with_damage(file, tmp_path / "nan.onnx", "table/embeddings", _nan_in_last),
            _with_damage(file, tmp_path / "negated.onnx", "table/embeddings", _negated_row),
        )
    )
    assert sound.passed, str(sound)
    held = sound.results[0].weights
    assert (held.count, held.compared, held.compared_nbytes) == (3, 3, held.nbytes)
    assert held.nbytes == 4 * (ROWS * 4 + 4 * 2 + 2)
    assert "m.onnx: 3 of 3 weights compared by content" in " ".join(str(sound).split())
    for report, cause, row in zip(damaged, ("NaN or infinity", "changed values"), (ROWS - 1, 39), strict=True):
        assert not report.passed
        (finding,) = report.findings
        assert (finding.cause, finding.layer) == (cause, "table")
        assert f"Index {row} of axis 0" in finding.evidence
        assert "'table/embeddings'" in finding.evidence
        assert "table/embeddings" in str(report)
        assert "nothing" not in report.render("junit")


@pytest.mark.slow
def test_a_weight_that_was_not_found_fails_the_check_where_coverage_is_required(model, file, tmp_path):
    ids = [{"ids": np.zeros((2, 1), np.int32)}]
    rounded = onnx.load(file)
    (table,) = [each for each in rounded.graph.initializer if each.name == "table/embeddings"]
    array = numpy_helper.to_array(table)
    table.CopyFrom(numpy_helper.from_array(np.nextafter(array, np.float32(1)), table.name))
    onnx.save(rounded, tmp_path / "rounded.onnx")
    usual = check_parity(model, tmp_path / "rounded.onnx", inputs=ids, runtimes="onnxruntime[all]")
    assert usual.passed, str(usual)
    assert usual.results[0].weights.compared == 2
    strict, sound = (
        check_parity(model, path, inputs=ids, runtimes="onnxruntime[all]", require_coverage=True)
        for path in (tmp_path / "rounded.onnx", file)
    )
    assert (strict.passed, sound.passed) == (False, True)
    assert "2 of 3 weights were found" in str(strict)


def test_a_weight_that_was_folded_rounded_or_left_out_is_not_compared_and_is_no_damage(model):
    constants = _constants(model)
    assert stored_weights(model, constants)[0].compared == 3
    kernel = constants["head/kernel"]
    for other in (kernel * np.float32(0.9995), np.rint(kernel * 100).astype(np.int8), kernel[:3]):
        held, faults = stored_weights(model, constants | {"head/kernel": other})
        assert (held.compared, faults) == (2, [])
    del constants["table/embeddings"]
    held, faults = stored_weights(model, constants)
    assert (held.compared, held.compared_nbytes, faults) == (2, 40, [])


@pytest.mark.parametrize("name", ["{0}", "constant of {0}"])
def test_weights_stored_unchanged_are_compared_a_few_rows_at_a_time(model, name):
    constants = {name.format(path): array for path, array in _constants(model).items()}
    pieces = LazyArrays(constants, _never, lambda own: iter(np.array_split(constants[own], 2)))
    held, faults = stored_weights(model, pieces)
    assert (held.compared, faults) == (3, [])
    constants[name.format("table/embeddings")][-1] *= -1
    held, (fault,) = stored_weights(model, LazyArrays(constants, constants.__getitem__, pieces.pieces))
    assert fault.weight == "table/embeddings"


def _never(name):
    raise AssertionError(f"{name} was read as a whole")


def test_a_weight_in_another_type_is_held_to_the_rounding_of_that_type(model):
    halves = {name: array.astype(np.float16) for name, array in _constants(model).items()}
    held, faults = stored_weights(model, halves)
    assert (held.compared, faults) == (3, [])


def test_a_weight_with_another_name_and_layout_is_found_by_its_content_and_so_is_its_damage(model):
    constants = {f"constant_{i}": variable.numpy().T.copy() for i, variable in enumerate(model.weights)}
    assert stored_weights(model, constants)[0].compared == 3
    constants["constant_0"][:, 39] *= -1
    held, (fault,) = stored_weights(model, constants)
    assert (held.compared, fault.weight) == (3, "table/embeddings")
    assert "Index 39 of axis 0" in str(fault.change)


def test_a_weight_whose_axes_are_merged_is_found_by_its_content_and_so_is_its_damage() -> None:
    layer = keras.layers.EinsumDense("abc,cde->abde", output_shape=(None, 4, 6), name="heads")
    model = keras.Sequential([keras.Input((None, 8)), layer])
    merged = layer.kernel.numpy().transpose(1, 2, 0).reshape(24, 8)
    held, faults = stored_weights(model, {"merged": merged})
    assert (held.compared, faults) == (1, [])
    merged[7] *= -1
    held, (fault,) = stored_weights(model, {"merged": merged})
    assert (held.compared, fault.layer, fault.weight) == (1, "heads", layer.kernel.path)


@keras.saving.register_keras_serializable("tests")
class DoubledOrLess(keras.layers.Layer):
    """Doubles what sums up to something positive, and takes one from the rest."""

    def call(self, x):
        return keras.ops.cond(keras.ops.sum(x) > 0, lambda: 2 * x, lambda: x - 1)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("export", [export_onnx, export_saved_model, export_litert])
def test_branches_that_no_case_takes_are_named_and_fail_the_check_where_coverage_is_required(export, tmp_path):
    x = keras.Input((None, 8), name="x")
    model = keras.Model(x, keras_pe.SinusoidalPositionEncoding(name="positions")(DoubledOrLess(name="two_ways")(x)))
    artifact = export(model, tmp_path / "model")
    swept = check_parity(model, artifact, require_coverage=True)
    assert swept.passed, str(swept)
    artifacts = [each for each in swept.results if each.format != "keras"]
    assert [(each.branches.count, each.branches.missed) for each in artifacts] == [(4, {})] * len(artifacts)
    assert "4 of 4 branches of conditions taken." in str(swept)
    one = check_parity(model, artifact, inputs={"x": np.ones((2, 3, 8), np.float32)}, require_coverage=True)
    assert not one.passed
    for each in (each for each in one.results if each.format != "keras"):
        assert any("two_ways" in name for name in each.branches.missed)
        assert list(each.branches.missed.values()) == [False, False]
        assert each.branches.taken == 2
