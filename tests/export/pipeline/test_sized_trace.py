"""A model is traced with free sizes if a trace exists, else with as few fixed sizes as possible."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from keras import layers, ops

from keras_pe.export import (
    Border,
    Cause,
    TracingError,
    check_parity,
    export_litert,
    export_onnx,
    export_saved_model,
    model_signature,
)
from keras_pe.export.artifacts.artifact import FIXED_KEY, Format
from keras_pe.export.graph.trace_with_variables import Endpoint
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.pipeline.sized_trace import traced_at_sizes


class Heads(layers.Layer):
    """Splits channels into heads with the sizes that Python knows."""

    def call(self, x: Any) -> Any:
        batch, length, channels = x.shape
        heads = ops.reshape(x, (batch, length, 2, channels // 2))
        return ops.reshape(ops.tanh(heads), (batch, length, channels))

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


class Rows(Heads):
    """Splits them for any batch."""

    def call(self, x: Any) -> Any:
        return ops.reshape(ops.tanh(ops.reshape(x, (-1, x.shape[1], 2, 2))), (-1, x.shape[1], 4))


class Steps(Heads):
    """Runs a recurrence in a loop over the length that Python knows."""

    def call(self, x: Any) -> Any:
        state, states = x[:, 0] * 0, []
        for step in range(x.shape[1]):
            state = ops.tanh(0.5 * state + x[:, step])
            states.append(state)
        return ops.stack(states, axis=1)


class Attending(layers.Layer):
    """Attends from queries, whose length Python must know, to a memory of any length."""

    def call(self, query: Any, memory: Any) -> Any:
        rows = ops.reshape(query, (-1, query.shape[1], 4))
        return ops.matmul(ops.softmax(ops.matmul(rows, ops.transpose(memory, (0, 2, 1)))), memory)

    def compute_output_shape(self, query_shape: Any, memory_shape: Any) -> Any:
        return query_shape


class Windows(Heads):
    """Sums windows of two by two pixels."""

    def call(self, x: Any) -> Any:
        _, height, width, channels = x.shape
        windows = ops.reshape(x, (-1, height // 2, 2, width // 2, 2, channels))
        return ops.reshape(windows - ops.mean(windows, (2, 4), keepdims=True), (-1, height, width, channels))


class Wrapped(keras.Model):
    def __init__(self, layer: layers.Layer) -> None:
        super().__init__(name="wrapped")
        self.layer = layer

    def call(self, x: Any) -> Any:
        return self.layer(x)


def functional(layer: layers.Layer, *shapes: tuple[int | None, ...]) -> keras.Model:
    inputs = [keras.Input(shape, name=name) for shape, name in zip(shapes, "xy", strict=False)]
    return keras.Model(inputs if len(inputs) > 1 else inputs[0], layer(*inputs), name="model")


def build_by_call(layer: layers.Layer, shape: tuple[int, ...]) -> keras.Model:
    model = Wrapped(layer)
    model(np.zeros(shape, "float32"))
    return model


def trace_signature(model: keras.Model, signature: Signature, *, may_fix: bool = True) -> Signature:
    def trace(layers: Sequence[Any], signature: Signature) -> Endpoint:
        return Endpoint(layers, signature, Format.SAVED_MODEL)

    return traced_at_sizes(trace, all_layers(model), signature, may_fix=may_fix).signature


ANY = (None, 4)


@pytest.mark.quick_rows(3)
@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (partial(functional, Rows(), ANY), [("batch", 11, 4)]),
        (partial(functional, Heads(), ANY), [(1, 11, 4)]),
        (partial(functional, Attending(), ANY, ANY), [("batch", 11, 4), ("batch", "length_2", 4)]),
        (partial(build_by_call, Heads(), (2, 9, 4)), [(2, 9, 4)]),
        (partial(build_by_call, Windows(), (2, 6, 8, 3)), [("batch", 6, 8, 3)]),
        (partial(functional, layers.Dense(4), ANY), [("batch", "length", 4)]),
    ],
)
def test_as_few_sizes_are_fixed_as_the_trace_needs(make: Any, shapes: list[tuple[int | str, ...]]) -> None:
    model = make()
    signature = trace_signature(model, model_signature(model))
    assert [spec.shape for spec in signature.inputs] == shapes
    fixed = {} if signature.fixed_sizes is None else signature.fixed_sizes.by_name
    assert len(fixed) == sum(isinstance(dim, int) for dim in shapes[0][:-1])
    assert all(f"{name} {size} only" in " ".join(signature.notes()) for name, size in fixed.items())


def test_a_size_that_the_caller_wants_free_is_never_fixed() -> None:
    model = functional(Rows(), ANY)
    free = [keras.InputSpec(shape=(None, None, 4), dtype="float32")]
    for signature, may_fix in (
        (model_signature(model, free), False),
        (model_signature(model, sizes={"length": (8, 16)}), True),
    ):
        with pytest.raises(TracingError, match=r"input_signature=\[.*\(None, \d+, 4\)"):
            trace_signature(model, signature, may_fix=may_fix)


@pytest.mark.slow
@pytest.mark.parametrize("make", [partial(functional, Rows(), ANY), partial(build_by_call, Steps(), (2, 9, 4))])
def test_a_file_declares_its_fixed_size_and_a_check_follows_it(make: Any, tmp_path: Path) -> None:
    model, exports = make(), {"m.onnx": export_onnx, "m": export_saved_model, "m.tflite": export_litert}
    artifacts = [export(model, tmp_path / name) for name, export in exports.items()]
    length = artifacts[0].inputs[0].shape[1]
    assert [each.inputs[0].shape for each in artifacts] == [("batch", length, 4)] * 3
    assert all(f"length {length} only" in each.notes[0] for each in artifacts)
    report = check_parity(model, artifacts)
    assert report.passed
    assert all(f"{each.path.name} at length {length} only" in report.reference for each in artifacts)
    assert {case.inputs["x"].split(", ")[1] for case in report.cases} == {str(length)}


@pytest.mark.slow
def test_other_frozen_dimensions_of_a_file_of_a_fixed_size_are_found(tmp_path: Path) -> None:
    model = functional(Rows(), ANY)
    proto = onnx.load(export_onnx(model, tmp_path / "m.onnx").path)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(proto, tmp_path / "batch.onnx")
    (kept,) = [each for each in proto.metadata_props if each.key == FIXED_KEY]
    proto.metadata_props.remove(kept)
    onnx.save(proto, tmp_path / "both.onnx")
    for name, said in (("batch.onnx", {"batch of 2"}), ("both.onnx", {"batch of 2", "length 11"})):
        report = check_parity(model, tmp_path / name, runtimes="onnxruntime")
        found = [each for result in report.results for each in result.findings]
        assert not report.passed
        assert {each.cause for each in found} == {Cause.FROZEN_LENGTH}
        assert len({each.evidence for each in found}) == len(said)
        assert all(any(words in each.evidence for each in found) for words in said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "border", "shape"),
    [
        (partial(functional, Rows(), ANY), Border(dtypes={"x": "float16"}), ("batch", 11, 4)),
        (partial(build_by_call, Windows(), (2, 6, 8, 3)), Border(layout={"x": "channels_first"}), ("batch", 3, 6, 8)),
        (partial(build_by_call, Heads(), (2, 9, 4)), Border(inputs={"tokens": "x"}), (2, 9, 4)),
    ],
)
def test_a_size_is_fixed_within_a_border_as_well(make: Any, border: Border, shape: Any, tmp_path: Path) -> None:
    model = make()
    artifact = export_onnx(model, tmp_path / "m.onnx", border=border)
    assert artifact.inputs[0].shape == shape
    assert any("only, the" in note for note in artifact.notes)
    report = check_parity(model, artifact, runtimes="onnxruntime")
    assert report.passed, report
    assert "m.onnx at " in report.reference
