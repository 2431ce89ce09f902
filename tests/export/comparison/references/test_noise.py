"""The errors of rounding near some cases: of the size that float32 makes, and the models are left as they were."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references import noise
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.tolerance import MAX_FACTOR


@pytest.fixture(scope="module")
def reference():
    keras.utils.set_random_seed(0)
    x = keras.Input((16,), name="x")
    y = keras.layers.Dense(32, activation="tanh", name="wide")(x)
    return KerasReference(keras.Model(x, {"y": keras.layers.Dense(4, name="y")(y)}))


@pytest.fixture
def cases():
    rng = np.random.default_rng(0)
    inputs = [{"x": rng.normal(size=(rows, 16)).astype(np.float32)} for rows in (1, 3)]
    return [Case(f"{len(each['x'])} rows", each, "") for each in inputs]


def test_each_case_has_a_noise_of_the_size_that_float32_makes(reference, cases):
    floors = reference.noise(cases)
    assert len(floors) == 2
    for floor in floors:
        assert 2.0**-24 < floor["y"].max() < 48 * 2.0**-23  # a rounding for each of 48 terms of at most 1


def test_the_weights_of_both_models_are_their_own_afterwards(reference, cases):
    models = reference.model, reference.float64_model
    before = [[np.array(variable) for variable in model.variables] for model in models]
    reference.noise(cases)
    for model, values in zip(models, before, strict=True):
        for variable, value in zip(model.variables, values, strict=True):
            np.testing.assert_array_equal(np.array(variable), value)


def test_several_runtimes_that_ask_for_the_same_cases_are_told_what_was_measured_once(reference, cases, monkeypatch):
    known = list(reference.noise(cases))
    monkeypatch.setattr(reference, "predict", None)
    assert list(reference.noise(cases)) == known


def test_the_noise_of_a_case_takes_three_calls_of_the_model_and_three_of_its_rebuild(reference, cases):
    called = []

    def predict(model, inputs):
        called.append(model)
        return reference.predict(model, inputs)

    noise.measure_noise(reference.model, reference.float64_model, cases, predict)
    assert [called.count(model) for model in (reference.model, reference.float64_model)] == [6, 6]  # in two cases


@pytest.mark.parametrize(
    ("error", "count", "calls"), [(0.1, 1, 0), (1e-3, 1, 2), (1e-5, 1, 8), (1e-3, 2, 2), (1e-5, 2, 16)]
)
def test_the_noise_takes_fewer_samples_the_larger_the_error(
    reference, cases, error, count, calls, tmp_path, monkeypatch
):
    """One sample runs the model and its rebuild once. An error near the tolerance takes three more samples.

    A file with an error that is not rounding takes one sample in all.
    """
    model = keras.models.clone_model(reference.model)
    model.set_weights([weight + error for weight in reference.model.get_weights()])
    export_onnx(model, tmp_path / "other.onnx")
    called = []
    usual = noise.measure_noise

    def measure(*arguments, predict, **options):
        return usual(*arguments, predict=lambda *given: called.append(1) or predict(*given), **options)

    monkeypatch.setattr("keras_pe.export.comparison.references.keras.measure_noise", measure)
    options = {
        "inputs": [each.inputs for each in cases[:count]],
        "runtimes": "onnxruntime[all]",
        "diagnosis_seconds": 0,
    }
    assert not check_parity(reference.model, tmp_path / "other.onnx", **options).passed
    assert len(called) == calls


def test_a_model_with_too_many_weights_has_its_smallest_weights_nudged(reference, cases, monkeypatch):
    ran = []
    monkeypatch.setattr(noise, "_MOST", 200)  # the kernel of 16 by 32 is left as it is
    monkeypatch.setattr(noise, "_nudge", lambda array, *_: ran.append(array.shape) or array)
    noise.measure_noise(reference.model, reference.float64_model, cases[:1], reference.predict)
    assert set(ran) == {(1, 16), (32,), (32, 4), (4,)}


class Wave(keras.layers.Layer):
    """Magnifies the rounding error of its input; the layer has no configuration for a rebuild."""

    def __init__(self, steepness):
        super().__init__(name="wave")
        self.steepness = steepness

    def call(self, x):
        return keras.ops.sin(self.steepness * x)


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.001, False)], ids=["sound", "scaled"])
def test_a_model_that_cannot_be_rebuilt_is_nudged_in_place(factor, passes, tmp_path):
    keras.utils.set_random_seed(0)
    x = keras.Input((1024,), name="x")
    model = keras.Model(x, Wave(300.0)(keras.layers.Dense(8, name="mix")(x)))
    kernel, bias = model.get_weights()
    file = export_onnx(model, tmp_path / "model.onnx")
    model.set_weights([kernel * factor, bias])
    report = check_parity(model, file, runtimes=["onnxruntime[all]"], diagnosis_seconds=0)
    assert report.passed is passes, report
    assert "no float64 rebuild" in report.reference
    rounding = 300 * 1024 * 2.0**-23  # a sum of 1024 terms of about 1, magnified
    tolerances = [
        c.tolerance for case in report.results[0].cases for c in case.comparisons if case.name != "large values"
    ]
    assert all(1e-5 <= tolerance <= 8 * rounding for tolerance in tolerances)


class Calls(keras.layers.Layer):
    """A layer that Keras cannot rebuild, since its configuration lacks the function."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, x):
        return self.function(x)


def _apply(function, name):
    return lambda x: keras.layers.Identity(name=name)(function(x))


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize("wrap", [Calls, _apply], ids=["own layer", "functional"])
@pytest.mark.parametrize(
    ("function", "other"),
    [
        (lambda x: ops.cast(x >= 0.25, "float32"), lambda x: ops.cast(x > 0.25, "float32")),
        (lambda x: ops.round(4 * x) / 4, lambda x: ops.floor(4 * x + 0.5) / 4),
        (lambda x: ops.ceil(x * 8), lambda x: ops.floor(x * 8) + 1),
        (lambda x: ops.cast(x / 2 < -4.5, "float32"), lambda x: ops.cast(x / 2 <= -4.5, "float32")),
        (lambda x: ops.sign(x), lambda x: ops.where(x >= 0, 1.0, -1.0)),
    ],
    ids=["equal", "tie", "step", "negative", "sign"],
)
def test_a_file_that_differs_at_a_border_alone_fails(wrap, function, other, tmp_path):
    """Keras cannot rebuild the layer, since its configuration lacks the function."""
    x = keras.Input((4,), name="x")
    model, wrong = (keras.Model(x, wrap(each, name="y")(x)) for each in (function, other))
    options = {"runtimes": "onnxruntime[all]", "diagnosis_seconds": 0}
    result = check_parity(model, export_onnx(wrong, tmp_path / "wrong.onnx"), **options).results[0]
    assert [case.name for case in result.cases if case.status != "passed"] == ["on borders"]
    assert check_parity(model, export_onnx(model, tmp_path / "own.onnx"), **options).passed


def test_integers_round_the_small_weights_of_attention_over_a_long_sequence_alike():
    """Each of 600 equal weights is less than half a step of 8 bits. A file rounds all of them to 0 or to a step."""
    x = keras.Input((None, 4), name="x")
    y = keras.layers.MultiHeadAttention(1, 4, use_bias=False, name="attention")(x, x)
    model = keras.Model(x, {"y": y})
    model.layers[1].set_weights([np.eye(4).reshape(each.shape) for each in model.get_weights()])
    reference = KerasReference(model)
    case = Case("long", {"x": np.ones((1, 600, 4), np.float32)}, "")

    def floor_of(precision):
        (floor,) = noise.measure_noise(model, None, [case], reference.predict, precision)
        return floor["y"].max()

    assert floor_of("int8") > 0.5  # all of the value 1, or more, is lost or added
    assert floor_of("float16") < 0.05


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": 0.3}, {"is_causal": True}, {"mask": True}, {"mask": True, "is_causal": True}, {"bias": True}],
    ids=str,
)
@pytest.mark.parametrize("heads", [4, 2])
def test_attention_in_steps_is_attention_but_for_the_rounding(options, heads, monkeypatch):
    monkeypatch.setattr(noise, "STEP_OF_SHARES", 1e-9)  # less than float32 resolves
    rng = np.random.default_rng(0)
    query = rng.normal(size=(2, 5, 4, 8)).astype(np.float32)
    key, value = (rng.normal(size=(2, 5, heads, 8)).astype(np.float32) for _ in range(2))
    arrays = {"mask": np.tri(5, dtype=bool)[None, None, ::-1], "bias": rng.normal(size=(2, 4, 5, 5)).astype(np.float32)}
    options = {name: arrays.get(name, option) for name, option in options.items()}
    expected = keras.ops.dot_product_attention(query, key, value, **options)
    with noise._rounded_attention(rng, lambda scores: scores):
        found = keras.ops.dot_product_attention(query, key, value, **options)
    np.testing.assert_allclose(found, expected, rtol=0, atol=40 * 2.0**-23)  # sums of 8 and of 5 terms of about 3


def _deep(depth, orthogonal_from=None):
    x = inputs = keras.Input((16,), name="x")
    for number in range(depth):
        if orthogonal_from is None:
            x = keras.layers.Activation("tanh")(x)
        else:
            initializer = keras.initializers.Orthogonal(seed=orthogonal_from + number)
            x = keras.layers.Dense(16, "tanh", kernel_initializer=initializer)(x)
    return keras.Model(inputs, {"y": x})


@pytest.mark.parametrize("depth", [3, 100])
def test_a_runtime_whose_every_layer_is_a_unit_too_small_is_within_the_noise_of_a_model_of_any_depth(depth, cases):
    reference = KerasReference(_deep(depth))
    allowed = MAX_FACTOR * reference.noise(cases[1:])[0]["y"].max()
    value, truth = cases[1].inputs["x"], cases[1].inputs["x"].astype(np.float64)
    for _ in range(depth):
        value, truth = np.tanh(value) * np.float32(1 - 2.0**-23), np.tanh(truth)
    assert np.abs(value - truth).max() < allowed
    assert allowed < depth * 2e-6  # a wrong scale or weight is off by more


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1000, 2000])
def test_a_sound_file_of_two_hundred_layers_passes_and_one_with_a_damaged_layer_fails(seed, cases, tmp_path):
    model = _deep(200, orthogonal_from=seed)
    file = export_onnx(model, tmp_path / "model.onnx")
    options = {"inputs": [each.inputs for each in cases], "runtimes": "onnxruntime[all]", "diagnosis_seconds": 0}
    assert check_parity(model, file, **options).passed
    kernel = model.layers[100].kernel
    kernel.assign(kernel * 1.001)
    assert not check_parity(model, file, **options).passed
