"""A normalization or factor that is folded into a layer: the two are one, and a fault in them is the layer's."""

from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
from keras import layers
from onnx import numpy_helper

from keras_pe.export import check_parity, export_litert, export_onnx
from keras_pe.export.model.stored_weights import Folding, is_foldable, kernel_of
from keras_pe.export.model.watch.recording import record_calls
from keras_pe.export.parity.diagnosis.foldings import folded_weights, possible_foldings
from keras_pe.export.parity.diagnosis.weights import compare_weights


def _randomize_statistics(model: keras.Model) -> keras.Model:
    """Gives the normalizations statistics of their own."""
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in layer.get_weights()])
    return model


@pytest.mark.parametrize("layer", [
    layers.Conv2D(5, 3), layers.Conv1D(4, 2, use_bias=False), layers.DepthwiseConv2D(3, depth_multiplier=2),
    layers.Dense(6), layers.Conv2DTranspose(4, 3, use_bias=False), layers.SeparableConv2D(4, 3),
], ids=lambda layer: type(layer).__name__)  # fmt: skip
def test_the_folded_weights_do_what_both_layers_do(layer: keras.Layer) -> None:
    keras.utils.set_random_seed(0)
    shape = (7, 4) if isinstance(layer, layers.Conv1D) else (7, 7, 4)
    norm = layers.BatchNormalization()
    model = _randomize_statistics(keras.Sequential([keras.Input(shape), layer, norm]))
    x = np.random.default_rng(1).normal(size=(2, *shape)).astype("float32")
    expected = keras.ops.convert_to_numpy(model(x))
    assert is_foldable(layer, norm)
    stored, gone = folded_weights([Folding(layer, norm)])
    own = kernel_of(layer).path
    bias = next(array for path, array in stored.items() if path != own)
    assert not gone & stored.keys()
    kernel_of(layer).assign(stored[own])
    plain = keras.ops.convert_to_numpy(layer(x)) - (0 if layer.bias is None else keras.ops.convert_to_numpy(layer.bias))
    # Sums of at most 36 products of values below 8, in float32.
    np.testing.assert_allclose(plain + bias, expected, rtol=1e-5, atol=1e-4)


def _model() -> keras.Model:
    keras.utils.set_random_seed(0)
    x = y = keras.Input((16, 16, 3), name="x")
    for number, size in enumerate((8, 12, 12), 1):
        y = layers.Conv2D(size, 3, padding="same", use_bias=number != 1, name=f"conv{number}")(y)
        y = layers.ReLU(name=f"relu{number}")(layers.BatchNormalization(name=f"norm{number}")(y))
        y = layers.DepthwiseConv2D(3, padding="same", name="depthwise")(y) if number == 1 else y
    return _randomize_statistics(
        keras.Model(x, layers.Dense(4, name="head")(layers.GlobalAveragePooling2D(name="pool")(y)))
    )


@pytest.fixture(scope="module", params=["an optimizer", "Keras"])
def folded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[keras.Model, Path]:
    """A model, and a file in which its normalizations are folded, and which passes."""
    model, path = _model(), tmp_path_factory.mktemp("folded") / "model.onnx"
    if request.param == "Keras":
        model(np.zeros((1, 16, 16, 3), "float32"))
        model.export(path, format="onnx", verbose=False)
    else:
        _optimize(export_onnx(model, path.with_name("source.onnx")).path, path)
    assert check_parity(model, path, runtimes="onnxruntime[all]").passed
    return model, path


def _optimize(source: Path, path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(source, options)


def _one_element(kernel: np.ndarray) -> np.ndarray:
    return kernel + np.float32(0.5) * (np.arange(kernel.size).reshape(kernel.shape) == 5)


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:In the future `np.object`:FutureWarning")  # Keras asks NumPy 2.4 for it
@pytest.mark.parametrize(("layer", "damage", "cause"), [
    ("conv1", np.negative, "flipped sign"), ("conv3", _one_element, "changed values"),
])  # fmt: skip
def test_a_fault_in_folded_weights_is_the_layers_alone(
    folded: tuple[keras.Model, Path],
    layer: str,
    damage: Callable[[np.ndarray], np.ndarray],
    cause: str,
    tmp_path: Path,
) -> None:
    model, source = folded
    file = onnx.load(source)
    norm = model.get_layer(f"norm{layer[-1]}")
    ((_, kernel), *_) = folded_weights([Folding(model.get_layer(layer), norm)])[0].items()
    wanted = kernel.transpose(3, 2, 0, 1)
    same = [each for each in file.graph.initializer if tuple(each.dims) == wanted.shape]
    (weight,) = (each for each in same if np.allclose(numpy_helper.to_array(each), wanted, rtol=1e-4, atol=1e-6))
    weight.CopyFrom(numpy_helper.from_array(damage(numpy_helper.to_array(weight)), weight.name))
    onnx.save(file, tmp_path / "damaged.onnx")
    (result,) = check_parity(model, tmp_path / "damaged.onnx", runtimes="onnxruntime[all]").results
    assert not result.passed
    assert [each.layer for each in result.layers if each.originates_here] == [layer]
    assert [(finding.layer, finding.cause) for finding in result.findings] == [(layer, cause)]
    assert "folded" in result.findings[0].evidence
    assert result.proof is not None
    assert result.proof.holds


def _as_in_litert(model: keras.Model) -> dict[str, np.ndarray]:
    """Returns the weights as LiteRT's converter stores them: without names, the normalizations folded."""
    calls = record_calls(model, lambda: model(np.zeros((1, 16, 16, 3), "float32")))
    stored, gone = folded_weights(possible_foldings(calls))
    assert len(stored) == 6
    plain = {weight.path: keras.ops.convert_to_numpy(weight.value) for weight in model.weights}
    held = {path: array for path, array in {**plain, **stored}.items() if path not in gone}
    return {f"constant {number}": array for number, array in enumerate(held.values())}


@pytest.mark.quick_rows(1)
@pytest.mark.parametrize(("damaged", "layer"), [
    (None, None),
    (("conv2", "kernel", np.negative), "conv2"),
    (("norm2", "moving_variance", lambda v: np.ones_like(v)), "norm2"),
    (("norm3", "gamma", lambda v: v * np.arange(1.0, 13.0)), "norm3"),
])  # fmt: skip
def test_a_folded_normalization_is_recognized_without_a_view_inside(damaged, layer):
    model = _model()
    if damaged is not None:
        owner, name, change = damaged
        weight = getattr(model.get_layer(owner), name)
        weight.assign(change(keras.ops.convert_to_numpy(weight.value)))
    constants, model = _as_in_litert(model), _model()
    calls = record_calls(model, lambda: model(np.zeros((1, 16, 16, 3), "float32")))
    faults = compare_weights(model, constants, possible_foldings(calls)).faults
    assert {fault.layer for fault in faults} == ({layer} if layer else set())


def _byte_model(activation: str) -> keras.Model:
    """Returns a model that scales bytes, by a factor which LiteRT's converter multiplies its kernel by."""
    keras.utils.set_random_seed(1)
    kinds = (
        *(layers.Rescaling(1 / 255), layers.Conv2D(4, 3, name="stem"), layers.Activation(activation, name="bend")),
        *(layers.GlobalAveragePooling2D(), layers.Dense(5, name="head")),
    )
    return keras.Sequential([keras.Input((9, 9, 3), name="image"), *kinds])


def _with_one_value(model: keras.Model) -> keras.Model:
    kernel = model.get_layer("head").kernel
    kernel.assign(kernel + np.eye(4, 5))
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "cause", "layer"),
    [
        (_byte_model("relu"), "other activation", "bend"),
        (_with_one_value(_byte_model("silu")), "changed values", "head"),
    ],
    ids=["activation", "values"],
)
def test_a_factor_that_is_folded_into_a_kernel_is_no_cause(
    other: keras.Model, cause: str, layer: str, tmp_path: Path
) -> None:
    report = check_parity(_byte_model("silu"), export_litert(other, tmp_path / "m.tflite"))
    (finding,) = next(each for each in report.results if not each.passed).findings
    assert (finding.cause, finding.layer) == (cause, layer)


def _statistics_model(between: keras.Layer, **statistics: float) -> keras.Model:
    """Returns a model of a normalization behind a layer, some of its weights with one value throughout."""
    keras.utils.set_random_seed(2)
    norm = layers.BatchNormalization(name="norm")
    kinds = (
        layers.Conv2D(4, 3, name="conv"),
        between,
        norm,
        layers.GlobalAveragePooling2D(),
        layers.Dense(3, name="head"),
    )
    model = keras.Sequential([keras.Input((7, 7, 2), name="image"), *kinds])
    _randomize_statistics(model)
    for name, factor in statistics.items():
        getattr(norm, name).assign(factor * getattr(norm, name))
    return model


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize("between", [layers.Activation("linear"), layers.LeakyReLU(0.2)], ids=["folded", "computed"])
@pytest.mark.parametrize(("statistic", "factor", "cause"), [
    ("moving_mean", 0.0, "missing values"), ("moving_variance", 2.0, "scaled values"),
])  # fmt: skip
def test_a_statistic_that_is_computed_into_other_weights_is_found_by_what_it_does(
    between: keras.Layer, statistic: str, factor: float, cause: str, tmp_path: Path
) -> None:
    other = _statistics_model(between, **{statistic: factor})
    report = check_parity(_statistics_model(between), export_litert(other, tmp_path / "m.tflite"))
    (finding,) = next(each for each in report.results if not each.passed).findings
    assert (finding.cause, finding.layer) == (cause, "norm")
