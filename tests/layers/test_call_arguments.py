"""Arguments of a layer's call, on any backend of Keras, and refusals of invalid ones."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import (
    AlibiBias,
    FourierFeatures,
    GridPositionBias,
    GridPositionEmbedding,
    LearnedPositionEmbedding,
    RelativePositionBias,
    RelativePositionEmbedding,
    RotaryPositionEncoding,
    SinusoidalPositionEncoding,
    TimestepEmbedding,
    timing_signal,
)
from tests.layers.configurations import EXACT, exact_grid, run


class TestCallArguments:
    def test_positions_per_example_and_shared_ones_agree(self) -> None:
        inputs, positions = np.zeros((3, 4, 8), "float32"), np.array([5, 0, 9, 2])
        layer = SinusoidalPositionEncoding()
        shared = run(layer, inputs, positions=positions)
        np.testing.assert_array_equal(run(layer, inputs, positions=np.tile(positions, (3, 1))), shared)
        assert np.abs(shared - timing_signal(positions, 8)).max() <= EXACT

    def test_a_start_per_example_moves_each_row(self) -> None:
        starts = np.array([0, 10, -4], "int32")
        signal = run(SinusoidalPositionEncoding(), np.zeros((3, 5, 8), "float32"), start_index=starts)
        expected = timing_signal(starts[:, None] + np.arange(5), 8)
        assert np.abs(signal - expected).max() <= EXACT

    # As many positions as examples, too: Keras adds a column to a square as a row.
    @pytest.mark.parametrize("positions", [np.arange(5), np.arange(5) + 0.25, np.array([[7, 9]] * 2)])
    def test_starts_and_positions_add_up(self, positions: np.ndarray) -> None:
        layer = SinusoidalPositionEncoding(start_index=100)
        arguments = {"positions": positions.astype("float32"), "start_index": np.array([1, 2], "int32")}
        signal = run(layer, np.zeros((2, positions.shape[-1], 8), "float32"), **arguments)
        expected = timing_signal(100 + np.array([[1], [2]]) + positions, 8)
        assert np.abs(signal - expected).max() <= EXACT + 2.0**-24

    def test_a_table_takes_positions_and_starts_within_it(self) -> None:
        layer = SinusoidalPositionEncoding(max_length=20, start_index=5)
        inputs = np.zeros((1, 3, 8), "float32")
        assert np.abs(run(layer, inputs, positions=np.array([19, 0, 7])) - timing_signal([24, 5, 12], 8)).max() <= EXACT
        assert np.abs(run(layer, inputs, start_index=17) - timing_signal([22, 23, 24], 8)).max() <= EXACT
        fractions = run(layer, inputs, positions=np.array([0.0, 0.5, 19.75], "float32"))
        assert np.abs(fractions - timing_signal([5.0, 5.5, 24.75], 8)).max() <= EXACT + 2.0**-24

    @pytest.mark.parametrize("grid", [(3, 5), (2, 3, 4)])
    @pytest.mark.parametrize("channels", [2, 12, 19, 24])
    def test_several_axes_have_blocks_side_by_side(self, grid: tuple[int, ...], channels: int) -> None:
        signal = run(SinusoidalPositionEncoding(), np.zeros((2, *grid, channels), "float32"))
        assert np.abs(signal - exact_grid(grid, channels)).max() <= EXACT

    def test_a_grid_takes_positions_starts_and_lengths_per_axis(self) -> None:
        inputs = np.zeros((2, 3, 4, 8), "float32")
        layer = SinusoidalPositionEncoding(start_index=[1, 2], max_length=[10, 20])
        rows, columns = np.array([0, 4, 8]), np.array([[1, 2, 3, 4], [5, 6, 7, 19]])
        signal = run(layer, inputs, positions=[rows, columns])
        np.testing.assert_allclose(signal[0, :, 0, :4], timing_signal(rows + 1, 4), atol=EXACT)
        np.testing.assert_allclose(signal[1, 0, :, 4:], timing_signal(columns[1] + 2, 4), atol=EXACT)
        moved = run(layer, inputs, start_index=[3, 4])
        np.testing.assert_allclose(moved[0, :, 0, :4], timing_signal(np.arange(3) + 4, 4), atol=EXACT)
        np.testing.assert_allclose(moved[0, 0, :, 4:], timing_signal(np.arange(4) + 6, 4), atol=EXACT)

    def test_a_list_of_positions_gives_each_element_of_a_sequence_several_coordinates(self) -> None:
        x, y = np.array([[0, 1, 2]]), np.array([9, 8, 7])
        signal = run(SinusoidalPositionEncoding(), np.zeros((1, 3, 9), "float32"), positions=[x, y])
        np.testing.assert_allclose(signal[0, :, :4], timing_signal(x[0], 4), atol=EXACT)
        np.testing.assert_allclose(signal[0, :, 4:8], timing_signal(y, 4), atol=EXACT)
        assert not signal[..., 8].any()

    def test_no_call_decides_for_later_ones(self) -> None:
        inputs, layer = np.zeros((1, 3, 8), "float32"), SinusoidalPositionEncoding()
        layer(inputs, positions=[np.arange(3), np.arange(3)])
        np.testing.assert_array_equal(run(layer, inputs), run(SinusoidalPositionEncoding(), inputs))

    def test_a_dtype_policy_may_change_after_the_first_call(self) -> None:
        inputs, layer = np.zeros((1, 700, 8), "float32"), SinusoidalPositionEncoding()
        layer(inputs)
        layer.dtype_policy = "mixed_bfloat16"
        assert keras.backend.standardize_dtype(layer(inputs).dtype) == "bfloat16"
        layer.dtype_policy = "float32"
        np.testing.assert_array_equal(run(layer, inputs), run(SinusoidalPositionEncoding(), inputs))

    def test_the_mask_of_the_inputs_passes_through(self) -> None:
        embedded = keras.layers.Embedding(5, 4, mask_zero=True)(np.array([[1, 2, 0]]))
        mask = SinusoidalPositionEncoding()(embedded)._keras_mask
        np.testing.assert_array_equal(ops.convert_to_numpy(mask), [[True, True, False]])


class TestErrors:
    def test_a_width_where_other_libraries_take_one_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"by name.*Received: 512\."):
            SinusoidalPositionEncoding(512)  # type: ignore[arg-type]

    def test_a_unix_time_is_refused_with_the_way_out_and_exact_from_an_origin(self) -> None:
        origin, inputs = 1_764_000_000, np.zeros((1, 3, 8), "float32")
        times = np.array([[origin, origin + 60, origin + 86_400]])
        with pytest.raises(ValueError, match=r"position 1,764,000,000 at index \[0, 0\]\. .*`start_index=-first`"):
            SinusoidalPositionEncoding()(inputs, positions=times)
        for given in (times, times.astype("int32"), times.astype("float64") + 0.25):
            layer = SinusoidalPositionEncoding(combine="replace")
            signal = run(layer, inputs, positions=given, start_index=-origin)
            assert np.abs(signal - timing_signal(given - origin, 8)).max() <= EXACT

    def test_a_position_out_of_a_table_is_named_with_the_layer(self) -> None:
        layer = SinusoidalPositionEncoding(max_length=8, name="places")
        with pytest.raises(ValueError, match=r"from 0 to 7 in layer 'places'\. Received: position -1 at index \[0\]"):
            layer(np.zeros((1, 1, 4), "float32"), positions=np.array([-1]))

    def test_wrong_arguments_fail_at_construction(self) -> None:
        wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"min_timescale": 0.0}, ValueError, "`min_timescale` must be positive and finite"),
            ({"min_timescale": -1.0}, ValueError, "`min_timescale` must be positive and finite"),
            ({"max_timescale": float("nan")}, ValueError, "`max_timescale` must be positive and finite"),
            ({"max_timescale": float("inf")}, ValueError, "`max_timescale` must be positive and finite"),
            ({"min_timescale": 10.0, "max_timescale": 1.0}, ValueError, "must not be greater than `max_timescale`"),
            ({"max_timescale": None}, TypeError, "`max_timescale` must be a number"),
            ({"start_index": 1.5}, TypeError, "`start_index` must be an integer"),
            ({"start_index": True}, TypeError, "`start_index` must be an integer"),
            ({"start_index": 2**24}, ValueError, "from -16,777,216 to 16,777,215"),
            ({"start_index": []}, ValueError, "`start_index` must have one value"),
            ({"layout": "sideways"}, ValueError, "Received: layout='sideways'"),
            ({"endpoint": 1}, TypeError, "`endpoint` must be True or False"),
            ({"timescales": [1.0, 0.0]}, ValueError, "`timescales` must be positive and finite"),
            ({"timescales": 3.0}, TypeError, "`timescales` must be a sequence of numbers"),
            ({"combine": "multiply"}, ValueError, "`combine` must be one of 'add', 'concatenate', 'replace'"),
            ({"max_length": 0}, ValueError, "`max_length` must be at least 1"),
            ({"max_length": 2.5}, TypeError, "`max_length` must be an integer"),
        ]
        for arguments, error, said in wrong:
            with pytest.raises(error) as raised:
                SinusoidalPositionEncoding(**arguments)
            assert said in str(raised.value), arguments

    @pytest.mark.parametrize(
        ("shape", "said"),
        [((2, 3), "`inputs` must have shape"), ((None, None, None), "known, positive number of channels")],
    )
    def test_inputs_without_length_or_channels_are_refused(self, shape: tuple, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            SinusoidalPositionEncoding()(keras.Input(batch_shape=shape))

    def test_wrong_call_arguments_are_named(self) -> None:
        wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"positions": np.zeros((2, 5, 1), "int32")}, ValueError, "must have shape (length,) or (batch, length)"),
            ({"positions": np.zeros(4, "int32")}, ValueError, "Received: positions.shape=(4,)"),
            ({"positions": np.zeros((3, 5), "int32")}, ValueError, "Received: positions.shape=(3, 5)"),
            ({"positions": np.zeros(5, "bool")}, TypeError, "`positions` must be integers or floats"),
            ({"positions": [0, 1, 2, 3, 4]}, TypeError, "a list of 5 numbers. numpy.asarray(positions) makes an array"),
            ({"positions": "01234"}, TypeError, "`positions` must be an array or a tensor"),
            ({"start_index": np.float32(1.0)}, TypeError, "`start_index` must be an integer tensor"),
            ({"start_index": 1.0}, TypeError, "`start_index` must be an integer"),
            ({"start_index": np.zeros((3,), "int32")}, ValueError, "`start_index` must have shape () or (batch,)"),
            ({"start_index": np.zeros((2, 1), "int32")}, ValueError, "`start_index` must have shape () or (batch,)"),
            ({"start_index": 2**24 - 2}, ValueError, "Positions must be from -16,777,216 to 16,777,215"),
            ({"positions": np.array([0, 1, 2**24, 3, 4])}, ValueError, "Received: position 16,777,216 at index [2]."),
            ({"positions": np.array([2**32 + 5] * 5)}, ValueError, "Received: position 4,294,967,301."),
            ({"start_index": np.int64(2**32 + 5)}, ValueError, "Received: position 4,294,967,301."),
            (
                {"positions": np.full(5, 2**31 - 1, "int32"), "start_index": np.int32(2**31 - 1)},
                ValueError,
                "Received: position 4,294,967,294 at index [0].",
            ),
            ({"positions": np.full(5, np.nan, "float32")}, ValueError, "Received: position nan at index [0]."),
        ]
        for arguments, error, said in wrong:
            with pytest.raises(error) as raised:
                SinusoidalPositionEncoding()(np.zeros((2, 5, 4), "float32"), **arguments)
            assert said in str(raised.value), arguments

    @pytest.mark.parametrize("symbolic", [False, True])
    @pytest.mark.parametrize(
        ("make", "shape", "names"),
        [
            (SinusoidalPositionEncoding, (1, 3, 4), ("inputs", "positions", "start_index")),
            (lambda: LearnedPositionEmbedding(9), (1, 3, 4), ("inputs", "positions", "start_index")),
            (lambda: FourierFeatures([[0.1, 0.2]]), (1, 3, 4), ("inputs", "positions", "start_index")),
            (RotaryPositionEncoding, (1, 3, 2, 4), ("queries", "keys", "positions", "start_index")),
            (lambda: AlibiBias(2), (1, 3, 2, 4), ("queries", "keys", "positions", "start_index", "key_positions")),
            (
                lambda: RelativePositionBias(2),
                (1, 3, 2, 4),
                ("queries", "keys", "positions", "start_index", "key_positions"),
            ),
            (
                lambda: RelativePositionEmbedding(2, 3),
                (1, 3, 2, 4),
                ("queries", "keys", "positions", "start_index", "key_positions"),
            ),
            (lambda: GridPositionEmbedding((3,)), (1, 3, 4), ("inputs", "grid")),
            (lambda: GridPositionBias(2, (3,)), (1, 3, 2, 4), ("queries", "positions")),
            (lambda: TimestepEmbedding(4), (3,), ("timesteps",)),
        ],
    )
    def test_an_argument_that_is_given_twice_or_too_many_is_refused_as_python_does(
        self, make: Callable[[], Any], shape: tuple[int, ...], names: tuple[str, ...], symbolic: bool
    ) -> None:
        def tensor(*sizes: int, dtype: str = "int32") -> Any:
            return keras.KerasTensor(sizes, dtype) if symbolic else np.zeros(sizes, dtype)

        layer = make()
        positions = [tensor(3)] if isinstance(layer, GridPositionBias) else tensor(3)
        integers = {"positions": positions, "key_positions": tensor(3), "start_index": tensor()}
        values = [integers.get(name, tensor(*shape, dtype="float32")) for name in names]
        layer(*values)
        for count in range(1, len(names) + 1):
            for place in range(count):
                for given in (values[:count], [*values[:place], None, *values[place + 1 : count]]):
                    if given[0] is not None:
                        with pytest.raises(TypeError, match=rf"multiple values for argument '{names[place]}'"):
                            layer(*given, **{names[place]: values[place]})
        with pytest.raises(TypeError, match="argument"):
            layer(*values, tensor(3))

    def test_an_input_longer_than_the_table_is_refused_eagerly_and_symbolically(self) -> None:
        for length, bound in [(11, 10), (2, 1)]:
            layer = SinusoidalPositionEncoding(max_length=bound)
            with pytest.raises(ValueError, match=f"from 0 to {bound - 1} in layer"):
                layer(np.zeros((1, length, 4), "float32"))
            with pytest.raises(ValueError, match=f"from 0 to {bound - 1} in layer"):
                layer(keras.Input((length, 4)))

    @pytest.mark.slow
    @pytest.mark.parametrize("start", [-1, 8])
    def test_a_start_that_leaves_the_table_is_refused(self, start: int) -> None:
        with pytest.raises(ValueError, match="from 0 to 9 in layer"):
            SinusoidalPositionEncoding(max_length=10)(np.zeros((1, 3, 4), "float32"), start_index=start)

    def test_one_tensor_of_positions_for_a_grid_is_refused(self) -> None:
        with pytest.raises(TypeError, match="`positions` must be a list of 2"):
            SinusoidalPositionEncoding()(np.zeros((1, 3, 3, 8), "float32"), positions=np.arange(3))

    @pytest.mark.parametrize("key", ["start_index", "max_length"])
    def test_a_value_for_each_of_too_many_axes_is_refused(self, key: str) -> None:
        with pytest.raises(ValueError, match=f"`{key}` must have one value for each of the 1 positional axes"):
            SinusoidalPositionEncoding(**{key: [4, 5]})(np.zeros((1, 3, 8), "float32"))

    def test_timescales_that_do_not_fit_the_width_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"2 for 4 channels\. Received: 3 timescales"):
            SinusoidalPositionEncoding(timescales=[1, 2, 3])(np.zeros((1, 3, 4), "float32"))
