"""Uses of the layers beside calls: checkpoints, variables, subclasses, other dtypes and switches."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import (
    AlibiBias,
    ContinuousPositionBias,
    GridPositionBias,
    GridPositionEmbedding,
    LearnedPositionEmbedding,
    RelativePositionBias,
    RelativePositionEmbedding,
    RotaryPositionEncoding,
    SinusoidalPositionEncoding,
    TimestepEmbedding,
    tensor2tensor,
    timing_signal,
)
from keras_pe.rotations.composed import LIMIT
from tests.layers.configurations import EXACT, none_in_lists, run

BACKEND = keras.config.backend()
on_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow's own graphs and files")
on_jax = pytest.mark.skipif(BACKEND != "jax", reason="JAX' own switches")


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, "float32")


@on_tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("positions", [None, [np.arange(3), np.arange(3)]])
@pytest.mark.parametrize("shape", [(1, 3, 8), (1, 3, 3, 8)])
def test_tensorflows_checkpoints_and_saved_models_hold_the_trained_tables(
    tmp_path: Path, shape: tuple[int, ...], positions: Any
) -> None:
    import tensorflow as tf

    layers = [LearnedPositionEmbedding(9) for _ in range(2)]
    expected, other = (run(layer, zeros(*shape), positions=positions) for layer in layers)
    assert (expected != other).any()
    path = tf.train.Checkpoint(layer=layers[0]).save(tmp_path / "checkpoint")
    tf.train.Checkpoint(layer=layers[1]).restore(path).assert_consumed()
    np.testing.assert_array_equal(run(layers[1], zeros(*shape), positions=positions), expected)

    module = tf.Module()
    module.layer = layers[0]
    module.serve = tf.function(lambda x: layers[0](x, positions=positions), [tf.TensorSpec(shape)])
    tf.saved_model.save(module, tmp_path / "module")
    loaded = tf.saved_model.load(tmp_path / "module")
    np.testing.assert_array_equal(loaded.serve(zeros(*shape)), expected)


@pytest.mark.parametrize("rows", [1, 3, 700])
def test_a_configured_start_ends_where_the_reach_does(rows: int) -> None:
    layer = SinusoidalPositionEncoding(start_index=LIMIT - rows, combine="replace")
    signal = run(layer, zeros(1, rows, 8))
    assert np.abs(signal - timing_signal(LIMIT - rows + np.arange(rows), 8)).max() <= EXACT
    for longer in (rows + 1, 2000, 9000):
        with pytest.raises(ValueError, match="counted from `start_index`"):
            layer(zeros(1, longer, 8))
        with pytest.raises(ValueError, match="counted from `start_index`"):
            SinusoidalPositionEncoding(start_index=LIMIT - rows)(keras.Input((longer, 8)))
        with pytest.raises(ValueError, match="`start_index \\+ length` must be at most 16,777,216"):
            tensor2tensor.get_timing_signal_1d(longer, 8, start_index=LIMIT - rows)


@on_tensorflow
@pytest.mark.parametrize("rows", [3, 700])
def test_a_graph_fails_past_the_reach_of_a_configured_start(rows: int) -> None:
    import tensorflow as tf

    layer = SinusoidalPositionEncoding(start_index=LIMIT - rows)
    graph = tf.function(layer, input_signature=[tf.TensorSpec([1, None, 8])])
    assert np.isfinite(graph(zeros(1, rows, 8))).all()
    for longer in (rows + 1, 2000):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"encoding.*position_out_of_reach"):
            graph(zeros(1, longer, 8))


@pytest.mark.quick_rows(1)
@on_tensorflow
@pytest.mark.parametrize(
    ("make", "given", "reach"),
    [
        (lambda: SinusoidalPositionEncoding(max_length=5, name="encoding"), {}, "0_to_4"),
        (lambda: SinusoidalPositionEncoding(max_length=5, name="encoding"), {"start_index": 4}, "0_to_4"),
        (lambda: SinusoidalPositionEncoding(name="encoding"), {"positions": [LIMIT, 0]}, "-16777216_to_16777215"),
        (lambda: SinusoidalPositionEncoding(name="encoding"), {"positions": [1e9, 0.5]}, "-16777216_to_16777215"),
        (lambda: LearnedPositionEmbedding(5, name="encoding"), {"positions": [5, 0]}, "0_to_4"),
        (lambda: RotaryPositionEncoding(max_length=5, name="encoding"), {"start_index": 4}, "0_to_4"),
        (lambda: RotaryPositionEncoding(name="encoding"), {"start_index": LIMIT}, "-16777216_to_16777215"),
        (lambda: RotaryPositionEncoding(max_length=9000, name="encoding"), {"start_index": 8999}, "0_to_8999"),
    ],
)
def test_a_graphs_error_says_which_positions_are_in_reach(
    make: Callable[[], Any], given: dict[str, Any], reach: str
) -> None:
    import tensorflow as tf

    layer = make()
    tensors = {name: tf.constant(value) for name, value in given.items()}
    graph = tf.function(lambda x, **tensors: layer(x, **tensors), reduce_retracing=True)
    specs = {name: tf.TensorSpec(tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
    call = graph.get_concrete_function(tf.TensorSpec([1, None, 8]), **specs)
    sentence = rf"encoding.*position_out_of_reach.*/positions_must_be_from_{reach}/"
    with pytest.raises(tf.errors.InvalidArgumentError, match=sentence):
        call(zeros(1, 2 if given else 6, 8), **tensors)


class TestVariables:
    class Decoder(keras.Model):
        """Counts the steps that it has made, as a decoder with a cache does."""

        def __init__(self, keyword: str, value: Any) -> None:
            super().__init__()
            self.encoding, self.dense, self.keyword = SinusoidalPositionEncoding(), keras.layers.Dense(1), keyword
            self.given = keras.Variable(value, dtype="int32", trainable=False)

        def call(self, inputs: Any) -> Any:
            return self.dense(self.encoding(inputs, **{self.keyword: self.given}))

    @pytest.mark.slow
    @pytest.mark.parametrize(("keyword", "value"), [("start_index", 5), ("positions", [4, 0, 9])])
    def test_a_model_may_keep_its_start_or_positions_in_a_variable(self, keyword: str, value: Any) -> None:
        model = self.Decoder(keyword, value)
        model.compile("sgd", "mse")
        model.fit(zeros(2, 3, 8), zeros(2, 3, 1), verbose=0)
        for given in (value, np.asarray(value) + 1000):
            model.given.assign(given)
            positions = given + np.arange(3) if keyword == "start_index" else np.asarray(given)
            expected = run(model.dense, timing_signal(positions, 8).astype("float32")[None])
            np.testing.assert_allclose(model.predict(zeros(1, 3, 8), verbose=0), expected, atol=1e-5)

    @on_tensorflow
    @pytest.mark.parametrize("length", [3, 700])
    @pytest.mark.parametrize("make", [lambda value: keras.Variable(value, dtype="int32"), None])
    def test_a_graph_reads_the_variable_whenever_it_runs(self, make: Callable[[int], Any] | None, length: int) -> None:
        import tensorflow as tf

        start, layer = (make or tf.Variable)(5), SinusoidalPositionEncoding()
        graph = tf.function(lambda x: layer(x, start_index=start))
        for first in (5, 70_000):
            start.assign(first)
            np.testing.assert_array_equal(graph(zeros(1, length, 8)), layer(zeros(1, length, 8), start_index=first))


def test_float64_positions_keep_their_digits_on_every_backend() -> None:
    rng = np.random.default_rng(0)
    positions = np.concatenate([rng.uniform(-1e6, 1e6, 200), [0.5, -0.5, 1e-9, -1e-9, 2.0**24 - 0.25]])
    layer = SinusoidalPositionEncoding(combine="replace")
    exact = timing_signal(positions, 64)
    # The fraction of a position, at most a half, is rounded to float32 once.
    assert np.abs(run(layer, zeros(1, 205, 64), positions=positions) - exact).max() <= EXACT + 2.0**-25
    moved = run(layer, zeros(2, 205, 64), positions=positions[None], start_index=np.array([0, -9], "int32"))
    assert np.abs(moved - np.stack([exact, timing_signal(positions - 9, 64)])).max() <= EXACT + 2.0**-25
    listed = run(SinusoidalPositionEncoding(), zeros(1, 205, 128), positions=[positions, positions])
    assert np.abs(listed[0, :, :64] - exact).max() <= EXACT + 2.0**-25
    for wrong in (np.nan, np.inf, 2.0**24, -1e300):
        with pytest.raises(ValueError, match=r"Received: position .* at index \[1\]"):
            layer(zeros(1, 2, 64), positions=np.array([0.5, wrong]))


@none_in_lists
def test_an_axis_may_have_no_positions_of_its_own() -> None:
    listed = run(SinusoidalPositionEncoding(), zeros(1, 3, 16), positions=[np.array([7, 5, 6]), None])
    assert np.abs(listed[0, :, :8] - timing_signal(np.array([7, 5, 6]), 8)).max() <= EXACT
    assert np.abs(listed[0, :, 8:] - timing_signal(np.arange(3), 8)).max() <= EXACT


def test_a_keras_that_takes_no_none_in_a_list_is_told_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras, "version", lambda: "3.12.4")
    with pytest.raises(ValueError, match=r"with Keras 3\.12\.4\. Received: None for axis 1\. Keras 3\.13 takes it"):
        SinusoidalPositionEncoding()(zeros(1, 3, 16), positions=[np.arange(3), None])


class TestFloatx:
    @pytest.fixture(params=["float64", "float16", "bfloat16"])
    def floatx(self, request: pytest.FixtureRequest) -> Iterator[None]:
        keras.config.set_floatx(request.param)
        yield
        keras.config.set_floatx("float32")

    @pytest.mark.slow
    @pytest.mark.usefixtures("floatx")
    @pytest.mark.parametrize("config", [{}, {"max_length": 800}, {"max_length": 9_000}])
    def test_it_does_not_decide_how_positions_are_computed(self, config: dict[str, Any]) -> None:
        layer = SinusoidalPositionEncoding(combine="replace", dtype="float32", **config)
        whole, fractions = np.array([5, 0, 799], "int32"), np.array([0.5, 1.0, 700.25], "float32")
        for given in (whole, fractions):
            positions = ops.convert_to_tensor(given, given.dtype.name)
            signal = run(layer, zeros(1, 3, 8), positions=positions)
            assert np.abs(signal - timing_signal(given, 8)).max() <= EXACT + 2.0**-15  # a fraction of 700 in float32
        assert np.abs(run(layer, zeros(1, 700, 8)) - timing_signal(np.arange(700), 8)).max() <= EXACT
        start = ops.convert_to_tensor([9], "int32")  # Keras on JAX makes floats of NumPy's integers under bfloat16
        started = run(layer, zeros(1, 700, 8), start_index=start)
        assert np.abs(started - timing_signal(np.arange(9, 709), 8)).max() <= EXACT
        model = keras.Sequential([keras.Input((None, 8), dtype="float32"), layer])
        assert np.abs(model.predict(zeros(1, 600, 8), verbose=0) - timing_signal(np.arange(600), 8)).max() <= EXACT


@on_jax
@pytest.mark.parametrize("switch", ["jax_debug_nans", "jax_enable_x64"])
def test_the_switches_of_jax_change_nothing(switch: str) -> None:
    import jax

    was = getattr(jax.config, switch)
    jax.config.update(switch, True)
    try:
        for config in ({}, {"max_length": 900}, {"max_length": 9_000}):
            layer = SinusoidalPositionEncoding(combine="replace", **config)
            started = jax.jit(lambda x, s, layer=layer: layer(x, start_index=s))
            for length in (3, 700):
                x, exact = zeros(1, length, 8), timing_signal(7 + np.arange(length), 8)
                given = jax.numpy.arange(7, 7 + length)
                assert np.abs(run(layer, x) - timing_signal(np.arange(length), 8)).max() <= EXACT
                for signal in (
                    run(layer, x, start_index=jax.numpy.asarray(7)),
                    started(x, 7),
                    run(layer, x, positions=given),
                    run(layer, x, positions=given.astype("float32")),
                ):
                    assert np.abs(signal - exact).max() <= EXACT
        embedding = LearnedPositionEmbedding(9)
        assert np.isfinite(run(embedding, zeros(1, 3, 8), start_index=2)).all()
    finally:
        jax.config.update(switch, was)


@on_jax
def test_layers_broadcast_no_ranks_where_jax_refuses_that() -> None:
    import jax

    x, queries, rows = zeros(2, 3, 8), zeros(2, 3, 2, 8), np.array([[1, 2, 3], [4, 5, 6]])
    starts, sinusoidal, rotary = np.array([1, 2], "int32"), SinusoidalPositionEncoding(), RotaryPositionEncoding()
    calls: list[Callable[[], Any]] = [
        lambda: sinusoidal(zeros(1, 700, 8)),
        lambda: SinusoidalPositionEncoding()(queries),
        lambda: sinusoidal(x, positions=rows[0] + 0.5, start_index=starts),
        lambda: sinusoidal(x, start_index=starts),
        lambda: LearnedPositionEmbedding(9)(x, positions=rows[0]),
        lambda: rotary(queries),
        lambda: rotary(queries, queries, positions=rows[0].astype("float32")),
        lambda: RotaryPositionEncoding(query_scaling={"scale": 0.1, "length": 2})(queries),
        lambda: AlibiBias(2)(queries, key_positions=rows),
        lambda: RelativePositionBias(2)(queries, positions=rows, key_positions=rows[0]),
        lambda: RelativePositionEmbedding(2, 3)(queries, start_index=starts),
        lambda: TimestepEmbedding(8)(rows + 0.5),
        lambda: GridPositionEmbedding((2, 2))(queries),
        lambda: GridPositionBias(2, (3, 4), class_tokens=1)(zeros(2, 4, 2, 8), positions=[rows, rows]),
        lambda: ContinuousPositionBias(2, (1, 3))(queries),
    ]
    with jax.numpy_rank_promotion("raise"):
        for call in calls:
            call()
            jax.eval_shape(call)


@keras.saving.register_keras_serializable(package="test_uses")
class Scaled(SinusoidalPositionEncoding):
    """The embeddings are scaled first, as in the Transformer."""

    def call(self, inputs: Any) -> Any:
        return super().call(inputs * 8.0)


@keras.saving.register_keras_serializable(package="test_uses")
class Reversed(LearnedPositionEmbedding):
    """Positions are counted from the end, and the argument has another name."""

    def call(self, x: Any, training: bool = False) -> Any:
        return super().call(x, positions=ops.arange(x.shape[1] - 1, -1, -1, dtype="int32"))


@pytest.mark.slow
def test_a_subclass_may_have_fewer_call_arguments(tmp_path: Path) -> None:
    inputs = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    expected = inputs * 8 + timing_signal(np.arange(3), 8)
    assert np.abs(run(Scaled(), inputs) - expected).max() <= EXACT + 2.0**-24 * np.abs(expected).max()
    model = keras.Sequential([keras.Input((3, 8)), Scaled(), Reversed(5)])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), model.predict(inputs, verbose=0))


@pytest.mark.slow
def test_a_trained_layer_of_several_coordinates_is_loaded_with_a_table_for_each(tmp_path: Path) -> None:
    inputs, *coordinates = keras.Input((None, 8)), *(keras.Input((None,), dtype="int32") for _ in range(2))
    model = keras.Model([inputs, *coordinates], LearnedPositionEmbedding((5, 6))(inputs, positions=coordinates))
    model.save(tmp_path / "model.keras")
    given = [zeros(1, 2, 8), np.array([[4, 0]]), np.array([[5, 3]])]
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(given, verbose=0), model.predict(given, verbose=0))


@pytest.mark.parametrize("positions", [np.array([[5, 0, 9]]), np.array([[5.0, 0.5, 9.0]], "float32")])
def test_positions_of_one_example_are_those_of_all(positions: np.ndarray) -> None:
    for layer in (SinusoidalPositionEncoding(), SinusoidalPositionEncoding(max_length=20)):
        signal = run(layer, zeros(4, 3, 8), positions=positions)
        assert np.abs(signal - timing_signal(positions, 8)).max() <= EXACT + 2.0**-24
        starts = np.arange(4, dtype="int32")
        moved = run(layer, zeros(4, 3, 8), positions=positions, start_index=starts)
        assert np.abs(moved - timing_signal(positions + starts[:, None], 8)).max() <= EXACT + 2.0**-24


def test_arguments_that_cannot_fit_are_refused_where_a_model_is_built() -> None:
    def spec(*shape: int | None, dtype: str = "int32") -> keras.KerasTensor:
        return keras.KerasTensor(shape, dtype)

    inputs, grid = spec(2, 5, 8, dtype="float32"), spec(2, 5, 6, 8, dtype="float32")
    wrong: list[tuple[Any, dict[str, Any], type[Exception]]] = [
        (inputs, {"positions": spec(2, 4)}, ValueError),
        (inputs, {"positions": spec(3, 5)}, ValueError),
        (inputs, {"positions": spec(2, 5, 1)}, ValueError),
        (inputs, {"positions": spec(2, 5, dtype="bool")}, TypeError),
        (inputs, {"start_index": spec(3)}, ValueError),
        (inputs, {"start_index": spec(2, dtype="float32")}, TypeError),
        (inputs, {"start_index": LIMIT - 2}, ValueError),
        (grid, {"positions": spec(2, 5)}, TypeError),
        (grid, {"positions": [spec(2, 5), spec(2, 5)]}, ValueError),
        (grid, {"start_index": [0, 0, 0]}, ValueError),
        (spec(2, 5, 8, dtype="complex64"), {}, TypeError),
    ]
    for make in (SinusoidalPositionEncoding, lambda: LearnedPositionEmbedding(9)):
        for shape, arguments, error in wrong:
            with pytest.raises(error, match=r"`(positions|start_index|inputs)`|Positions must be"):
                make()(shape, **arguments)
        layer = make()
        for fitting in (spec(None, 5), spec(1, 5), spec(2, None), spec(5), spec(None, None)):
            assert layer(inputs, positions=fitting).shape == (2, 5, 8)


def test_complex_inputs_are_refused() -> None:
    wrong, right = zeros(1, 3, 8).astype("complex64"), zeros(1, 3, 8)
    for layer in (SinusoidalPositionEncoding(), LearnedPositionEmbedding(9), RotaryPositionEncoding()):
        with pytest.raises(TypeError, match=r"`(inputs|queries)` must be real numbers"):
            layer(wrong)
    for queries, keys, name in ((wrong, right, "queries"), (right, wrong, "keys")):
        with pytest.raises(TypeError, match=f"`{name}` must be real numbers"):
            RotaryPositionEncoding()(queries, keys)
        with pytest.raises(TypeError, match=f"`{name}` must be real numbers"):
            RotaryPositionEncoding()(*(keras.KerasTensor(each.shape, each.dtype.name) for each in (queries, keys)))
