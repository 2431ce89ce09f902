"""A program can tell why an export stopped without reading the sentence."""

import errno
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import (
    DisagreementError,
    ExportError,
    Format,
    InvalidArtifactError,
    TracingError,
    UnsupportedError,
    export_litert,
    export_onnx,
    model_signature,
)
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import describe, first_line, is_out_of_memory
from keras_pe.export.pipeline.smoke_test import check_agreement


def _model(function: Callable[[Any], Any]) -> keras.Model:
    x = keras.Input((4, 4), name="x")
    return keras.Model(x, keras.layers.Lambda(function, output_shape=(4, 4), name="inner")(x), name="net")


def test_the_message_is_a_sentence_and_its_parts_are_attributes() -> None:
    error = UnsupportedError(Format.ONNX, "net", "operator 'A' has no form.", layer="inner", operator="A")
    assert str(error) == "ONNX export of 'net' stopped: operator 'A' has no form. Nothing was written."
    assert (error.format, error.model, error.reason) == ("onnx", "net", "operator 'A' has no form.")
    assert (error.layer, error.operator) == ("inner", "A")


@pytest.mark.parametrize("kind", [TracingError, UnsupportedError, InvalidArtifactError, DisagreementError])
def test_an_error_crosses_to_another_process_whole(kind: type[ExportError]) -> None:
    error = kind(Format.LITERT, "net", "it broke.", layer="inner", operator="Svd")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_an_operator_without_a_form_is_named_with_its_layer(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        export_onnx(_model(lambda x: keras.ops.svd(x)[1]), tmp_path / "m.onnx")
    assert (caught.value.format, caught.value.layer, caught.value.operator) == (Format.ONNX, "inner", "Svd")


def test_randomness_is_named_with_its_layer(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        export_onnx(_model(lambda x: x + keras.random.normal((4, 4))), tmp_path / "m.onnx")
    assert caught.value.layer == "inner"
    assert str(caught.value.operator).startswith("StatelessRandom")


@pytest.mark.parametrize("export", [export_onnx, export_litert])
def test_outputs_without_randomness_are_named_as_the_model_names_them(export: Any, tmp_path: Path) -> None:
    mean = keras.Input((4,), name="mean")
    sample = keras.layers.Lambda(lambda x: x + keras.random.normal(keras.ops.shape(x)), output_shape=(4,))(mean)
    model = keras.Model(mean, {"mean": mean * 2.0, "sample": sample, "scale": mean + 1.0})
    path = tmp_path / ("m.onnx" if export is export_onnx else "m.tflite")
    with pytest.raises(UnsupportedError, match="export a model that returns 'mean', 'scale' alone"):
        export(model, path)


def test_a_model_that_cannot_be_traced_is_told_from_one_without_a_form(tmp_path: Path) -> None:
    with pytest.raises(TracingError, match="Keras cannot trace it"):
        export_onnx(_model(lambda x: x * np.asarray(x)), tmp_path / "m.onnx")


def test_other_numbers_are_told_from_no_form() -> None:
    model = _model(lambda x: x + 1.0)
    (output,) = (spec.name for spec in model_signature(model).outputs)
    with pytest.raises(DisagreementError, match="differs from Keras'"):
        check_agreement(lambda inputs: {output: inputs["x"]}, KerasReference(model), Format.ONNX)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libtensorflow_cc.so.2: failed to map segment from shared object"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : bad allocation"),
        ValueError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."),
        RuntimeError("OOM when allocating tensor with shape[1048576,1048576]"),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
    ids=str,
)
def test_memory_that_ran_out_is_called_that(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert first_line(error).startswith("memory ran out (")
    assert describe(error).startswith("memory ran out (")
    caught = ValueError("no sizes were found")
    caught.__cause__ = error
    assert is_out_of_memory(caught)


@pytest.mark.parametrize("error", [ValueError("rows"), OSError(errno.ENOSPC, "No space left"), KeyError("out")])
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_out_of_memory(error)
    assert "memory" not in first_line(error) + describe(error)
