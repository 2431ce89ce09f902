"""A LiteRT file is run whatever its signature is called, and without one; one with operators of TensorFlow's is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import keras
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from keras_pe.export import Cause, check_parity, read_artifact
from keras_pe.export.parity import bundle_script
from keras_pe.export.runtimes.litert import LiteRTRuntime


def _model() -> keras.Model:
    """Returns a model of two inputs of one shape, the second of which comes first in the alphabet."""
    keras.utils.set_random_seed(0)
    x, context = keras.Input((None, 4), name="x"), keras.Input((None, 4), name="context")
    hidden = keras.layers.Dense(3, name="hidden")(x - 2 * context)
    return keras.Model([x, context], {"score": keras.layers.Dense(5, name="score")(hidden), "hidden": hidden})


def _remove_signatures(file: Any) -> None:
    file.signatureDefs, file.metadata = None, None


def _predict(file: Any) -> None:
    file.signatureDefs[0].signatureKey, file.metadata = b"predict", None


def _two(file: Any) -> None:
    _predict(file)
    other = schema.SignatureDefT()
    other.signatureKey, other.subgraphIndex = b"warm_up", 0
    other.inputs, other.outputs = file.signatureDefs[0].inputs, file.signatureDefs[0].outputs
    file.signatureDefs.append(other)


def _part_first(file: Any) -> None:
    """Puts a signature of one output before that of the model."""
    _two(file)
    file.signatureDefs.reverse()
    file.signatureDefs[0].outputs = file.signatureDefs[1].outputs[:1]


def _hold_flex_operator(file: Any) -> None:
    for code in file.operatorCodes[:2]:
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode = b"FlexErf"


def _edit(path: Path, target: Path, edit: Callable[[Any], None]) -> Path:
    content = path.read_bytes()
    file = schema.ModelT.InitFromPackedBuf(content, 0)
    edit(file)
    builder = flatbuffers.Builder(len(content))
    builder.Finish(file.Pack(builder), content[4:8])
    target.write_bytes(builder.Output())
    return target


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("edit", [_remove_signatures, _predict, _two])
def test_a_file_is_run_under_any_signature_and_without_one(
    edit: Callable[[Any], None], artifact: Any, tmp_path: Path
) -> None:
    path = _edit(artifact(_model, "litert").path, tmp_path / "edited.tflite", edit)
    runtime = LiteRTRuntime(str(path))
    assert (
        {spec.name for spec in read_artifact(path).inputs} == {spec.name for spec in runtime.inputs} == {"x", "context"}
    )
    for length in (1, 6):
        arrays = np.random.default_rng(0).normal(size=(2, 3, length, 4)).astype("float32")
        answer = runtime.run(dict(zip(("x", "context"), arrays, strict=True)))
        replayed = bundle_script._open_litert(str(path), "", "")(dict(zip(("x", "context"), arrays, strict=True)))
        assert all(np.array_equal(replayed[name], answer[name]) for name in answer)
        assert list(answer) == [spec.name for spec in read_artifact(path).outputs]
        truth = _model()(dict(zip(("x", "context"), arrays, strict=True)))
        for found in answer.values():
            # Sums of up to four products of numbers of order 1.
            np.testing.assert_allclose(found, truth["score" if found.shape[-1] == 5 else "hidden"], rtol=0, atol=4e-6)


@pytest.mark.parametrize("edit", [_remove_signatures, _predict])
def test_tensor_inside_a_file_is_read_and_replaced(edit: Callable[[Any], None], artifact: Any, tmp_path: Path) -> None:
    runtime = LiteRTRuntime(str(_edit(artifact(_model, "litert").path, tmp_path / "edited.tflite", edit)))
    arrays = np.random.default_rng(0).normal(size=(2, 3, 6, 4)).astype("float32")
    inputs = dict(zip(("x", "context"), arrays, strict=True))
    score = max(runtime.run(inputs).items(), key=lambda pair: pair[1].shape[-1])
    inside = runtime.intermediates(inputs, {})
    np.testing.assert_allclose(inside[score[0]], score[1], rtol=0, atol=4e-6)
    first = next(name for name, array in inside.items() if array.shape == arrays[0].shape)
    zeros = runtime.intermediates(inputs, {first: np.zeros_like(arrays[0])})
    assert not zeros[first].any()
    assert not np.array_equal(zeros[score[0]], inside[score[0]])
    np.testing.assert_array_equal(runtime.intermediates(inputs, {})[score[0]], inside[score[0]])


@pytest.mark.slow
@pytest.mark.parametrize("edit", [_remove_signatures, _predict, _part_first])
def test_a_check_matches_such_a_file_by_name_and_place(
    edit: Callable[[Any], None], artifact: Any, tmp_path: Path
) -> None:
    path = _edit(artifact(_model, "litert").path, tmp_path / "edited.tflite", edit)
    report = check_parity(_model(), path)
    assert report.passed, str(report)
    assert not any(each.by_order for result in report.results for each in result.names)


@pytest.mark.slow
def test_operators_of_tensorflow_are_told_once_with_the_way_out(artifact: Any, tmp_path: Path) -> None:
    path = _edit(artifact(_model, "litert").path, tmp_path / "edited.tflite", _hold_flex_operator)
    (result,) = check_parity(_model(), path, runtimes="litert").results
    (finding,) = result.findings
    assert finding.cause is Cause.NOT_LOADED
    assert "Erf" in finding.evidence
    assert "SELECT_TF_OPS" in finding.evidence
