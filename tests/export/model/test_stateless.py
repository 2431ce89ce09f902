"""A model with its state as arguments computes what the model computes, row by row and from call to call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnxruntime as ort
import pytest
from keras import layers, ops

from keras_pe.export import Border, ExportError, check_parity, export_litert, export_onnx, export_saved_model
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker
from tests.export.counting import Counting
from tests.raised import about

RNG = np.random.default_rng(0)
STATEFUL = {"stateful": True, "return_sequences": True}


@keras.saving.register_keras_serializable("tests")
class CausalConvolution(layers.Layer):
    """A convolution that keeps the last steps of its input for the next call."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.convolution = layers.Conv1D(3, 4, name="convolution")

    def build(self, shape: Any) -> None:
        self.convolution.build(shape)
        self.past = self.add_weight(shape=(1, 3, shape[-1]), initializer="zeros", trainable=False, name="past")

    def call(self, x: Any) -> Any:
        x = ops.concatenate([self.past, x], axis=1)
        self.past.assign(x[:, -3:])
        return self.convolution(x)


@keras.saving.register_keras_serializable("tests")
class Positions(layers.Layer):
    """Adds the sine of each step's position, which goes on from call to call."""

    def build(self, _: Any) -> None:
        self.position = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name="position")

    def call(self, x: Any) -> Any:
        length = ops.shape(x)[1]
        steps = self.position + ops.arange(length, dtype="int32")
        self.position.assign_add(length)
        return x + ops.sin(ops.cast(steps, x.dtype))[None, :, None]


class Blending(layers.Layer):
    """Keeps one mean of all rows, so that rows depend on each other."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(1, 1, shape[-1]), initializer="zeros", trainable=False, name="mean")

    def call(self, x: Any) -> Any:
        self.mean.assign(0.5 * self.mean + 0.5 * ops.mean(x, axis=(0, 1), keepdims=True))
        return x + self.mean


def chain(*parts: Any, shape: Sequence[int | None] = (2, None, 4)) -> Any:
    keras.utils.set_random_seed(0)
    return keras.Sequential([keras.Input(batch_shape=tuple(shape), name="x"), *parts], name="model")


# Each model, the names of its states, and whether the batch is free.
MODELS: dict[str, tuple[Callable[[], Any], list[str], bool]] = {
    "lstm": (lambda: chain(layers.LSTM(3, name="lstm", **STATEFUL)), ["lstm_state_h", "lstm_state_c"], True),
    "convolution": (lambda: chain(CausalConvolution(name="stream"), shape=(1, None, 4)), ["stream_past"], True),
    "positions": (lambda: chain(Positions(name="sine"), shape=(None, None, 4)), ["sine_position"], True),
    "blending": (lambda: chain(Blending(name="blend"), shape=(1, None, 4)), ["blend_mean"], False),
}
MORE: dict[str, tuple[Callable[[], Any], list[str], bool]] = {
    "gru": (lambda: chain(layers.GRU(3, name="gru", **STATEFUL)), ["gru_state_h"], True),
    "simple": (lambda: chain(layers.SimpleRNN(3, name="rnn", **STATEFUL)), ["rnn_state_h"], True),
    "cells": (
        lambda: chain(layers.RNN([layers.LSTMCell(3), layers.GRUCell(2)], name="rnn", **STATEFUL)),
        ["rnn_state_h_0", "rnn_state_c_0", "rnn_state_h_1"],
        True,
    ),
    "images": (
        lambda: chain(layers.ConvLSTM1D(2, 3, name="images", **STATEFUL), shape=(1, None, 5, 2)),
        ["images_state_h", "images_state_c"],
        True,
    ),
    "both": (
        lambda: chain(layers.Bidirectional(layers.GRU(3, name="gru", **STATEFUL), name="both")),
        ["both_forward_gru_state_h", "both_backward_gru_state_h"],
        True,
    ),
    "nested": (
        lambda: chain(chain(CausalConvolution(name="stream"), shape=(1, None, 4)), shape=(1, None, 4)),
        ["stream_past"],
        True,
    ),
}


def run_chunks(
    run: Callable[[dict[str, Any]], dict[str, Any]], x: Any, state: dict[str, Any], chunks: Sequence[int]
) -> tuple[Any, dict[str, Any]]:
    """Returns the outputs of all chunks of a sequence as one array, and the state after the last chunk."""
    rows, start = [], 0
    for size in chunks:
        outputs = run({"x": x[:, start : start + size], **state})
        start += size
        state = {name: np.asarray(outputs.pop(f"{name}_out")) for name in state}
        (output,) = outputs.values()
        rows.append(np.asarray(output))
    return np.concatenate(rows, axis=1), state


@pytest.mark.parametrize("name", MODELS)
def test_a_model_called_with_its_state_goes_on_as_the_model_does(name: str) -> None:
    make, names, is_free = MODELS[name]
    model = make()
    outer = Border(state="arguments").around(model)
    assert [name for name in outer.input if name != "x"] == names
    batch = outer.input["x"].shape[0]
    assert (batch is None) == is_free
    x = RNG.normal(size=(1, 7, 4)).astype("float32")
    x = np.concatenate([x] * (model.inputs[0].shape[0] or 1))
    start = {each.name: np.zeros([len(x) if d is None else d for d in each.shape], each.dtype) for each in outer.inputs}
    state = {key: start[key] for key in names}
    chunks = (2, 1, 4)
    found, state = run_chunks(lambda arrays: outer(arrays), x, state, chunks)
    wanted = [np.asarray(model(part)) for part in np.split(x, np.cumsum(chunks)[:-1], axis=1)]
    np.testing.assert_allclose(found, np.concatenate(wanted, axis=1), rtol=1e-5, atol=1e-6)
    assert any(each.any() for each in state.values())


def test_a_variable_of_a_private_attribute_is_a_state() -> None:
    class Private(layers.Layer):
        def build(self, _: Any) -> None:
            self._count = self.add_weight(shape=(), initializer="zeros", trainable=False, name="count")

        def call(self, x: Any) -> Any:
            self._count.assign_add(1.0)
            return x + self._count

    outer = Border(state="arguments").around(chain(Private(name="private")))
    assert list(outer.input) == ["x", "private_count"]


def test_a_model_without_state_has_no_state_as_arguments() -> None:
    with pytest.raises(ValueError, check=about("state")):
        Border(state="arguments").around(chain(layers.Dense(3)))
    with pytest.raises(ValueError, match="`state` must be 'arguments'"):
        Border(state="outputs")


def run_in(artifact: Artifact, runner: Worker) -> Callable[[dict[str, Any]], dict[str, Any]]:
    runner.load(artifact.path)
    return lambda arrays: dict(runner.run(arrays))


@pytest.mark.slow_rows(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_every_format_returns_the_sequence_in_any_chunks(tmp_path: Path, name: str) -> None:
    make, names, is_free = (MODELS | MORE)[name]
    model = make()
    outer = Border(state="arguments").around(model)
    exports: list[tuple[Callable[..., Artifact], str, str]] = [
        (export_onnx, "onnxruntime", "m.onnx"),
        (export_saved_model, "tensorflow", "m"),
        (export_litert, "litert", "m.tflite"),
    ]
    for export, runtime, file in exports:
        artifact = export(model, tmp_path / file, state="arguments")
        assert [state.input for state in artifact.states] == names
        batch = 3 if is_free else 1
        rest = [8, *model.inputs[0].shape[2:]]
        x = RNG.normal(size=(batch, *rest)).astype("float32")
        with Worker(find_runtimes([runtime])[0], 60.0) as runner:
            run = run_in(artifact, runner)
            for chunks in ([1] * 8, [5, 1, 2]):
                found = run_chunks(run, x, artifact.initial_state(batch), chunks)
                wanted = run_chunks(lambda arrays: outer(arrays), x, artifact.initial_state(batch), chunks)
                for one, other in zip((found[0], *found[1].values()), (wanted[0], *wanted[1].values()), strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)
                if name not in ("both", "blending"):  # these depend on the chunks in Keras too
                    whole = run_chunks(run, x, artifact.initial_state(batch), [8])
                    np.testing.assert_allclose(found[0], whole[0], rtol=1e-5, atol=2e-6)


@pytest.mark.slow
def test_a_file_with_state_as_arguments_passes_its_check_and_a_planted_fault_is_named(tmp_path: Path) -> None:
    import onnx

    model = chain(layers.LSTM(3, name="lstm", **STATEFUL), layers.Dense(2, name="head"))
    artifact = export_onnx(model, tmp_path / "m.onnx", state="arguments")
    report = check_parity(model, artifact, runtimes="onnxruntime")
    assert report.passed, str(report)
    assert [each.name for each in report.cases][-2:] == ["step by step", "chunks of uneven length"]

    def find_causes(*renamed: tuple[str, str], identity: bool = False) -> set[str]:
        """Returns the causes for a copy of the file, with other names of states, or with states returned unchanged."""
        proto = onnx.load(artifact.path)
        for node in proto.graph.node:
            for old, new in renamed:
                for index, output in enumerate(node.output):
                    if output == old:
                        node.output[index] = f"{new}?"
        for node in proto.graph.node:
            node.output[:] = [each.removesuffix("?") for each in node.output]
        if identity:
            names = ("lstm_state_h", "lstm_state_c")
            proto.graph.node.extend(onnx.helper.make_node("Identity", [name], [f"{name}_out"]) for name in names)
        onnx.save(proto, tmp_path / "planted.onnx")
        report = check_parity(model, tmp_path / "planted.onnx", runtimes="onnxruntime[disabled]")
        return {str(each.cause) for result in report.results for each in result.findings}

    h, c = "lstm_state_h_out", "lstm_state_c_out"
    assert find_causes((h, c), (c, h)) == {"exchanged states"}
    assert find_causes((h, "h"), (c, "c"), identity=True) == {"state not carried"}


@pytest.mark.parametrize(
    "steps", [pytest.param(1_000, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.exhaustive)]
)
def test_an_lstm_over_thousands_of_steps_stays_as_close_as_keras_itself(tmp_path: Path, steps: int) -> None:
    model = chain(layers.LSTM(8, name="lstm", **STATEFUL), shape=(1, None, 4))
    artifact = export_onnx(model, tmp_path / "m.onnx", state="arguments")
    session = ort.InferenceSession(str(artifact.path))
    names = [each.name for each in session.get_outputs()]
    x = RNG.normal(size=(1, steps, 4)).astype("float32")
    run = lambda arrays: dict(zip(names, session.run(None, arrays), strict=True))  # noqa: E731
    found, _ = run_chunks(run, x, artifact.initial_state(), [1] * steps)
    whole = model.predict_on_batch(x)
    wide = keras.models.clone_model(model, clone_function=_float64_copy)
    wide.set_weights(model.get_weights())
    truth = wide.predict_on_batch(x.astype("float64"))
    assert np.abs(found - truth).max() <= 8 * np.abs(whole - truth).max()


def _float64_copy(layer: Any) -> Any:
    return type(layer).from_config({**layer.get_config(), "dtype": "float64"})


class Noisy(layers.Layer):
    def __init__(self, kind: str = "normal", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kind, self._generator = kind, keras.random.SeedGenerator(1)

    def call(self, x: Any) -> Any:
        shape, draws = ops.shape(x), {"seed": self._generator}
        if self.kind == "several":
            numbers = keras.random.randint(shape, -3, 9, **draws)
            dropped = keras.random.dropout(x, 0.3, seed=self._generator)
            return dropped * keras.random.uniform(shape, -1, 1, **draws) + ops.cast(numbers, x.dtype)
        if self.kind == "global":
            return x + keras.random.normal(shape, **draws) + keras.random.normal(shape)
        return x + getattr(keras.random, self.kind)(shape, **draws)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "kind": self.kind}


@pytest.mark.slow
def test_a_file_draws_the_numbers_of_keras_from_the_state_of_the_generator(tmp_path: Path) -> None:
    model = chain(layers.LSTM(4, name="lstm", **STATEFUL), Noisy("several", name="noise"), shape=(2, None, 4))
    artifact = export_onnx(model, tmp_path / "m.onnx", state="arguments", seed="argument")
    assert [(each.input, each.shape) for each in artifact.states][2:] == [("noise_seed", (2,))]
    session = ort.InferenceSession(str(artifact.path))
    names = [each.name for each in session.get_outputs()]
    x = RNG.normal(size=(2, 9, 4)).astype("float32")
    run = lambda arrays: dict(zip(names, session.run(None, arrays), strict=True))  # noqa: E731
    found, state = run_chunks(run, x, artifact.initial_state(2), [2, 1, 6])
    wanted = np.concatenate([np.asarray(model(part)) for part in np.split(x, [2, 3], axis=1)], axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert state["noise_seed"].tolist() == [1, 9]
    plain = chain(Noisy(name="noise"))
    report = check_parity(plain, export_onnx(plain, tmp_path / "n.onnx", seed="argument"), runtimes="onnxruntime")
    assert report.passed, report


def test_a_seed_is_an_argument_of_a_model_with_a_generator_alone() -> None:
    with pytest.raises(ValueError, check=about("seed")):
        Border(seed="argument").around(chain(Counting(name="counter")))
    with pytest.raises(ValueError, check=about("state")):
        Border(state="arguments", seed="argument").around(chain(Noisy(name="noise")))
    with pytest.raises(ValueError, check=about("seed")):
        Border(seed="arguments")


@pytest.mark.slow
def test_random_numbers_stay_refused_and_the_refusal_of_state_names_the_argument(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="`state`='arguments'"):
        export_onnx(chain(Counting(name="counter")), tmp_path / "m.onnx")
    model = chain(Counting(name="counter"), Noisy(name="noisy"))
    with pytest.raises(ExportError, match=r"'noisy' .* draws random numbers .* `seed`='argument'"):
        export_onnx(model, tmp_path / "m.onnx", state="arguments")
    for kind in ("truncated_normal", "global"):  # drawn by rejection; a generator that belongs to no layer
        with pytest.raises(ExportError) as caught:
            export_onnx(chain(Noisy(kind, name="noisy")), tmp_path / "m.onnx", seed="argument")
        assert "`seed`" not in str(caught.value)


class Subclassed(keras.Model):
    """A recurrent model that does not declare its inputs."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.memory = layers.GRU(3, name="memory", **STATEFUL)

    def call(self, x: Any) -> Any:
        return self.memory(x)


@pytest.mark.slow
def test_a_subclassed_model_with_a_state_needs_an_example_or_a_signature_of_any_batch(tmp_path: Path) -> None:
    example = np.zeros((1, 5, 4), "float32")
    ways: list[dict[str, Any]] = [{"inputs": {"x": example}}]
    ways += [{"input_signature": [keras.InputSpec(shape=(size, None, 4), dtype="float32")]} for size in (1, None)]
    for number, way in enumerate(ways):
        model = Subclassed(name="model")
        model(example)
        with pytest.raises(ValueError, match="`input_signature` must be given"):
            export_onnx(model, tmp_path / "none.onnx", state="arguments")
        artifact = export_onnx(model, tmp_path / f"{number}.onnx", state="arguments", **way)
        assert [each.shape for each in artifact.inputs] == [("batch", "length", 4), ("batch", 3)]
