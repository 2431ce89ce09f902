"""The layer, on whichever backend Keras runs: its numbers, and the models that it is part of."""

import itertools
import json
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import SinusoidalPositionEncoding, timing_signal
from keras_pe.rotations.composed import LIMIT
from keras_pe.signal.formula import geometric_timescales
from tests import golden
from tests.layers.configurations import CONFIGURATIONS, EXACT, exact_signal, run


def signal_of(length: int, channels: int, config: dict[str, Any] | None = None, **arguments: Any) -> np.ndarray:
    layer = SinusoidalPositionEncoding(**{**(config or {}), "combine": "replace"})
    return run(layer, np.zeros((1, length, channels), "float32"), **arguments)[0]


class TestNumbers:
    def test_every_configuration_gives_the_exact_signal(self) -> None:
        inputs = np.random.default_rng(0).normal(size=(2, 11, 6)).astype("float32")
        for name, config in CONFIGURATIONS.items():
            signal = np.broadcast_to(exact_signal(config, np.arange(11), 6), inputs.shape)
            combine = config.get("combine", "add")
            if combine == "add":
                expected = inputs + signal
            else:
                expected = np.concatenate([inputs, signal], -1) if combine == "concatenate" else signal
            # The sum is rounded once more, to 2**-24 of its size.
            bound = EXACT + 2.0**-24 * np.abs(expected)
            assert (np.abs(run(SinusoidalPositionEncoding(**config), inputs) - expected) <= bound).all(), name

    def test_ranges_are_exact_within_and_beyond_the_table(self) -> None:
        for length in (1, 2, 511, 512, 513, 1024, 1025, 4097):
            assert np.abs(signal_of(length, 16) - timing_signal(np.arange(length), 16)).max() <= EXACT, length

    def test_any_width_is_encoded_and_odd_ones_end_in_zeros(self) -> None:
        for channels, length in itertools.product((1, 2, 3, 7, 64), (3, 600)):
            signal = signal_of(length, channels)
            assert np.abs(signal - timing_signal(np.arange(length), channels)).max() <= EXACT, channels
            if channels % 2:
                assert not signal[:, -1].any(), channels

    def test_one_timescale_more_than_pairs_cuts_the_last_column(self) -> None:
        for layout, length in itertools.product(("concatenated", "interleaved"), (5, 600)):
            config = {"timescales": [1.0, 30.0, 1000.0], "layout": layout}
            exact = exact_signal(config, np.arange(length), 5)
            assert np.abs(signal_of(length, 5, config) - exact).max() <= EXACT, (layout, length)

    def test_positions_are_exact_all_over_the_range(self) -> None:
        edges = [0, 1, 255, 256, 511, 512, 2**17 - 1, 2**17, 65_504, 10_000, LIMIT - 1]
        edges += [-edge for edge in edges] + [-LIMIT]
        positions = np.concatenate([edges, np.random.default_rng(1).integers(-LIMIT, LIMIT, 20_000)]).astype("int32")
        signal = signal_of(len(positions), 32, positions=positions)
        assert np.abs(signal - timing_signal(positions, 32)).max() <= EXACT

    def test_a_configured_and_a_run_time_start_are_exact(self) -> None:
        for start in (0, 37, 16_000_000, -1, -300, -LIMIT):
            expected = timing_signal(start + np.arange(700), 24)
            assert np.abs(signal_of(700, 24, {"start_index": start}) - expected).max() <= EXACT, start
            assert np.abs(signal_of(700, 24, start_index=start) - expected).max() <= EXACT, start
            assert np.abs(signal_of(700, 24, start_index=np.int32(start)) - expected).max() <= EXACT, start

    def test_fractional_positions_lose_only_what_their_dtype_cannot_hold(self) -> None:
        rng = np.random.default_rng(2)
        positions = np.concatenate(
            [rng.uniform(-1, 1, 500), rng.uniform(-600, 600, 500), rng.uniform(-(2**22), 2**22, 500), [0.5, -0.5, 1e-9]]
        )
        held = positions.astype("float32")
        rates = 1 / geometric_timescales(16)
        # Held to 2**-24 of its size; the angle of the fraction is a product of two roundings of at most 2**-24 each.
        bound = EXACT + 2.0**-24 * (np.abs(positions)[:, None] + 1) * np.concatenate([rates, rates])
        assert (np.abs(signal_of(len(positions), 32, positions=held) - timing_signal(positions, 32)) <= bound).all()

    @pytest.mark.parametrize(
        ("channels", "config"),
        [
            (512, {"min_timescale": 10.0}),
            (512, {"timescales": (1 / (np.pi * np.arange(1, 257))).tolist()}),
            (4096, {"timescales": (1 / (np.pi * np.arange(1, 2049))).tolist()}),
        ],
    )
    def test_fractional_positions_are_as_exact_with_short_timescales(self, channels: int, config: dict) -> None:
        rng = np.random.default_rng(5)
        positions = np.concatenate([rng.uniform(-1, 1, 100), rng.uniform(-2000, 2000, 100), [-1e-9, 0.5]])
        held = positions.astype("float32")
        signal = signal_of(len(held), channels, config, positions=held)
        assert np.abs(signal - exact_signal(config, held, channels)).max() <= EXACT

    def test_whole_positions_are_as_exact_with_timescales_of_any_shortness(self) -> None:
        positions = np.random.default_rng(7).integers(-LIMIT, LIMIT, 2_000)
        nerf = [2.0**-octave / np.pi for octave in range(16)]
        for timescales in (nerf, [1e-3] * 4, np.geomspace(1e-6, 1, 64).tolist()):
            config, channels = {"timescales": timescales}, 2 * len(timescales)
            signal = signal_of(len(positions), channels, config, positions=positions)
            assert np.abs(signal - exact_signal(config, positions, channels)).max() <= EXACT
            start = LIMIT - 2_000
            exact = exact_signal(config, start + np.arange(700), channels)
            assert np.abs(signal_of(700, channels, config, start_index=start) - exact).max() <= EXACT

    def test_a_range_a_start_and_given_positions_are_the_same_bits(self) -> None:
        start = 70_000
        given = signal_of(1500, 16, positions=np.arange(start, start + 1500, dtype="int32"))
        np.testing.assert_array_equal(signal_of(1500, 16, start_index=start), given)
        np.testing.assert_array_equal(signal_of(1500, 16), signal_of(1500, 16, positions=np.arange(1500)))

    def test_many_rows_are_composed_and_exact_up_to_the_last(self) -> None:
        config = {"max_length": 65_536}
        positions = np.concatenate([np.arange(600), np.random.default_rng(6).integers(0, 65_536, 600), [65_535]])
        signal = signal_of(len(positions), 16, config, positions=positions)
        assert np.abs(signal - timing_signal(positions, 16)).max() <= EXACT
        assert np.abs(signal_of(65_536, 2, config) - timing_signal(np.arange(65_536), 2)).max() <= EXACT
        with pytest.raises(ValueError, match="from 0 to 65,535"):
            signal_of(1, 16, config, positions=np.array([65_536]))

    def test_no_rows_are_encoded_as_none(self) -> None:
        for shape in [(2, 0, 8), (0, 3, 8)]:
            assert run(SinusoidalPositionEncoding(), np.zeros(shape, "float32")).shape == shape

    def test_whole_float_positions_are_as_exact_as_integers(self) -> None:
        positions = np.array([0, 1, 1000, 65_504, 2**24 - 1, -7], "float32")
        assert np.abs(signal_of(6, 32, positions=positions) - timing_signal(positions, 32)).max() <= EXACT

    def test_positions_of_any_integer_type_are_encoded(self) -> None:
        for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64"):
            positions = np.array([0, 5, 100], dtype)
            assert np.abs(signal_of(3, 8, positions=positions) - timing_signal(positions, 8)).max() <= EXACT, dtype

    @pytest.mark.parametrize(
        ("policy", "spacing"),
        [("float16", 2.0**-11), ("mixed_float16", 2.0**-11), ("bfloat16", 2.0**-8), ("mixed_bfloat16", 2.0**-8)],
    )
    def test_half_precision_costs_at_most_half_a_unit_in_the_last_place(self, policy: str, spacing: float) -> None:
        length = 2048
        layer = SinusoidalPositionEncoding(combine="replace", dtype=policy)
        outputs = layer(np.zeros((1, length, 32), "float32"))
        assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
        signal = ops.convert_to_numpy(ops.cast(outputs, "float32"))[0]
        exact = timing_signal(np.arange(length), 32)
        # Half the distance of neighboring numbers just below 1 is spacing / 2, at v it is that of v's power of two.
        units = spacing * 2.0 ** np.ceil(np.log2(np.maximum(np.abs(exact), 2.0**-14)))
        assert (np.abs(signal - exact) <= units / 2 + EXACT).all()
        assert len(np.unique(timing_signal(np.arange(length), 32).astype("float16"), axis=0)) == length

    def test_positions_are_not_rounded_to_the_compute_dtype(self) -> None:
        layer = SinusoidalPositionEncoding(combine="replace", dtype="mixed_bfloat16")
        positions = np.array([256.0, 257.0, 65_504.0, 70_001.0], "float32")
        signal = ops.convert_to_numpy(ops.cast(layer(np.zeros((1, 4, 8), "float32"), positions=positions), "float32"))
        assert np.abs(signal[0] - timing_signal(positions, 8)).max() <= 2.0**-9 + EXACT

    @pytest.mark.skipif(
        keras.config.backend() == "jax", reason="JAX computes in float32 unless it is started with JAX_ENABLE_X64"
    )
    def test_float64_policy_is_exact_to_1e8_everywhere(self) -> None:
        positions = np.random.default_rng(3).integers(-LIMIT, LIMIT, 5_000)
        layer = SinusoidalPositionEncoding(combine="replace", dtype="float64")
        signal = run(layer, np.zeros((1, 5_000, 32)), positions=positions)[0]
        assert signal.dtype == np.float64
        assert np.abs(signal - timing_signal(positions, 32)).max() <= 1e-8


class TestGolden:
    def test_the_layer_is_tensor2tensors_within_what_float32_lost_there(self) -> None:
        for case in golden.cases():
            difference = np.abs(self.signal_of_case(case) - case.returned).max()
            assert difference <= golden.largest_tolerance(case), case.name

    @staticmethod
    def signal_of_case(case: golden.Case) -> np.ndarray:
        arguments = dict(case.arguments)
        if case.function == "get_timing_signal_1d":
            inputs = np.zeros((1, arguments.pop("length"), arguments.pop("channels")), "float32")
            return run(SinusoidalPositionEncoding(**arguments), inputs)
        if case.function == "get_layer_timing_signal_sinusoid_1d":
            inputs = np.zeros((1, 1, arguments["channels"]), "float32")
            return run(SinusoidalPositionEncoding(), inputs, positions=np.array([arguments["layer"]]))
        positions = arguments.get("positions", arguments.get("position"))
        layer = SinusoidalPositionEncoding(start_index=arguments.get("start_index", 0))
        return run(layer, arguments["x"], positions=positions)


class TestModels:
    def test_the_configuration_is_plain_values_and_makes_the_same_layer(self) -> None:
        inputs = np.random.default_rng(4).normal(size=(2, 9, 6)).astype("float32")
        for name, config in CONFIGURATIONS.items():
            layer = SinusoidalPositionEncoding(**config)
            again = SinusoidalPositionEncoding.from_config(json.loads(json.dumps(layer.get_config())))
            assert again.get_config() == layer.get_config(), name
            np.testing.assert_array_equal(run(again, inputs), run(layer, inputs), err_msg=name)

    @pytest.mark.parametrize(("combine", "width"), [("add", 6), ("concatenate", 12), ("replace", 6)])
    def test_shapes_are_known_before_the_data(self, combine: str, width: int) -> None:
        layer = SinusoidalPositionEncoding(combine=combine)
        assert layer.compute_output_shape((None, None, 6)) == (None, None, width)
        spec = layer(keras.Input((None, 6)))
        assert spec.shape == (None, None, width)
        assert spec.dtype == "float32"

    @pytest.mark.slow
    def test_a_functional_model_takes_positions_and_starts_as_inputs(self) -> None:
        inputs = keras.Input((None, 6), name="inputs")
        positions = keras.Input((None,), dtype="int32", name="positions")
        start = keras.Input(batch_shape=(None,), dtype="int32", name="start")
        outputs = SinusoidalPositionEncoding()(inputs, positions=positions, start_index=start)
        model = keras.models.clone_model(keras.Model([inputs, positions, start], outputs))
        given = [np.zeros((2, 3, 6), "float32"), np.array([[0, 1, 2], [7, 8, 9]]), np.array([0, 100])]
        expected = timing_signal(given[1] + given[2][:, None], 6)
        assert np.abs(run(model, given) - expected).max() <= EXACT
        assert np.abs(model.predict(given, verbose=0) - expected).max() <= EXACT

    def test_a_functional_model_takes_a_list_of_positions(self) -> None:
        inputs, x, y = keras.Input((None, 8)), keras.Input((None,)), keras.Input((None,))
        model = keras.Model([inputs, x, y], SinusoidalPositionEncoding()(inputs, positions=[x, y]))
        model = keras.Model.from_config(model.get_config())
        given = [np.zeros((1, 2, 8), "float32"), np.array([[1.0, 2.5]]), np.array([[3.0, 4.0]])]
        signal = run(model, given)
        np.testing.assert_allclose(signal[..., 4:], timing_signal(given[2], 4), atol=EXACT)

    @pytest.mark.slow
    def test_it_trains_in_sequential_and_subclassed_models(self) -> None:
        class Encoder(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.encoding, self.dense = SinusoidalPositionEncoding(), keras.layers.Dense(1)

            def call(self, inputs: Any) -> Any:
                return self.dense(self.encoding(inputs))

        sequential = keras.Sequential([keras.Input((None, 6)), SinusoidalPositionEncoding(), keras.layers.Dense(1)])
        inputs, targets = np.ones((8, 5, 6), "float32"), np.zeros((8, 5, 1), "float32")
        for model in (sequential, Encoder()):
            keras.utils.set_random_seed(0)
            model.compile("adam", "mse")
            losses = model.fit(inputs, targets, epochs=2, verbose=0).history["loss"]
            assert losses[1] < losses[0]
            assert len(model.get_layer(index=0).weights) == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("config", [{}, {"max_length": 5}, {"layout": "interleaved", "start_index": 3}])
    def test_it_can_be_compiled(self, config: dict[str, Any]) -> None:
        model = keras.Sequential([keras.Input((None, 6)), SinusoidalPositionEncoding(**config)])
        # The compilers of TensorFlow and JAX may fuse a product and a sum, which rounds one time less.
        model.compile(jit_compile=keras.config.backend() != "torch")
        outputs = model.predict(np.zeros((2, 5, 6), "float32"), verbose=0)
        assert np.abs(outputs - exact_signal(config, np.arange(5), 6)).max() <= EXACT
