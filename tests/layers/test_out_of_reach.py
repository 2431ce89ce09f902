"""A position that has no row is an error or NaN in every layer and however a backend runs it, and never another row."""

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_pe import (
    AlibiBias,
    ContinuousPositionBias,
    FourierFeatures,
    GridPositionBias,
    LearnedPositionEmbedding,
    RelativePositionBias,
    RelativePositionEmbedding,
    RotaryPositionEncoding,
    SinusoidalPositionEncoding,
    TimestepEmbedding,
    timing_signal,
)
from tests.layers.configurations import EXACT

BACKEND = keras.config.backend()
LENGTH = 3
FAR = [2**24, -(2**24) - 1, 2**31 - 1, -(2**31)]
TABLE = [8, 9, 900, -1, -8, *FAR]
DISTANT = [2**29, -(2**29), 2**31 - 1, -(2**31)]
PAIRS = [8, 9, 900, -8, -9, *FAR]
LONGROPE = {
    "rope_type": "longrope",
    "original_max_position_embeddings": 4,
    "factor": 2.0,
    "short_factor": [1.0] * 2,
    "long_factor": [2.0] * 2,
}
Call = Callable[[Any, Any, Any], Any]


def positions_of(layer: Any) -> Call:
    return lambda x, position, _: layer(x, positions=ops.stack([position] * LENGTH))


def starts_of(layer: Any) -> Call:
    return lambda x, _, start: layer(x, start_index=ops.stack([start]))


def start_of(layer: Any) -> Call:
    return lambda x, _, start: layer(x, start_index=start)


def sums_of(layer: Any) -> Call:
    return lambda x, position, start: layer(x, positions=ops.stack([position] * LENGTH), start_index=start)


def keys_of(layer: Any) -> Call:
    return lambda x, position, _: layer(x, key_positions=ops.stack([position] * LENGTH))


def times_of(layer: Any) -> Call:
    return lambda _, time, __: layer(ops.stack([time]))


def both_axes_of(layer: Any) -> Call:
    return lambda x, position, _: layer(x, positions=[ops.stack([0] * LENGTH), ops.stack([position] * LENGTH)])


def places_of(layer: Any) -> Call:
    """Returns a call in which the last token alone is away from the first place of a grid."""

    def call(x: Any, position: Any, _: Any) -> Any:
        zero = ops.zeros_like(position)
        return layer(x, positions=[ops.stack([zero] * LENGTH), ops.stack([zero] * (LENGTH - 1) + [position])])

    return call


SEQUENCE, HEADS, GRID = (1, LENGTH, 8), (1, LENGTH, 2, 8), (1, LENGTH, LENGTH, 8)
# How a layer is called, the shape of its inputs, the last position in reach, and positions that are not.
CASES: dict[str, tuple[Callable[[], Call], tuple[int, ...], float, list[Any]]] = {
    "learned": (lambda: positions_of(LearnedPositionEmbedding(8)), SEQUENCE, 7, TABLE),
    "learned, a start": (lambda: start_of(LearnedPositionEmbedding(8)), SEQUENCE, 5, [6, *TABLE]),
    "learned, starts": (lambda: starts_of(LearnedPositionEmbedding(8)), SEQUENCE, 5, [6, *TABLE]),
    "learned, axes": (lambda: both_axes_of(LearnedPositionEmbedding((4, 8))), SEQUENCE, 7, TABLE),
    "learned, a grid": (lambda: both_axes_of(LearnedPositionEmbedding((4, 8))), GRID, 7, TABLE),
    "learned, one row": (lambda: positions_of(LearnedPositionEmbedding(1)), SEQUENCE, 0, [1, *TABLE]),
    "learned, narrow": (
        lambda: positions_of(LearnedPositionEmbedding(8, dtype="mixed_bfloat16")), SEQUENCE, 7, TABLE,
    ),
    "sinusoids": (lambda: positions_of(SinusoidalPositionEncoding(max_length=8)), SEQUENCE, 7, TABLE),
    "sinusoids, a start": (lambda: start_of(SinusoidalPositionEncoding(max_length=8)), SEQUENCE, 5, [6, *TABLE]),
    "sinusoids, starts": (lambda: starts_of(SinusoidalPositionEncoding(max_length=8)), SEQUENCE, 5, [6, *TABLE]),
    "sinusoids, composed": (
        lambda: positions_of(SinusoidalPositionEncoding(max_length=9_000)), SEQUENCE, 8_999, [9_000, -1, *FAR],
    ),
    "sinusoids, unbounded": (lambda: positions_of(SinusoidalPositionEncoding()), SEQUENCE, 2**24 - 1, FAR),
    "sinusoids, a far start": (lambda: start_of(SinusoidalPositionEncoding()), SEQUENCE, 2**24 - 3, [2**24 - 2, *FAR]),
    "rotations": (lambda: positions_of(RotaryPositionEncoding(max_length=8)), HEADS, 7, TABLE),
    "rotations, a start": (lambda: start_of(RotaryPositionEncoding(max_length=8)), HEADS, 5, [6, *TABLE]),
    "rotations, unbounded": (lambda: positions_of(RotaryPositionEncoding()), HEADS, 2**24 - 1, FAR),
    "rotations, axes": (lambda: both_axes_of(RotaryPositionEncoding(max_length=(8, 8))), HEADS, 7, TABLE),
    "rotations, longrope": (
        lambda: positions_of(RotaryPositionEncoding(max_length=8, rotary_dim=4, scaling=LONGROPE)), HEADS, 7, TABLE,
    ),
    "features": (lambda: positions_of(FourierFeatures([[0.1, 0.2, 0.3, 0.4]])), SEQUENCE, 2**24 - 1, FAR),
    "times": (lambda: times_of(TimestepEmbedding(8)), SEQUENCE, 2**24 - 1, FAR),
    "alibi": (lambda: positions_of(AlibiBias(2)), HEADS, 2**29 - 1, DISTANT),
    "alibi, a start": (lambda: start_of(AlibiBias(2)), HEADS, 2**29 - 3, [2**29 - 2, *DISTANT]),
    "buckets": (lambda: positions_of(RelativePositionBias(2)), HEADS, 2**29 - 1, DISTANT),
    "buckets, starts": (lambda: starts_of(RelativePositionBias(2)), HEADS, 2**29 - 3, DISTANT),
    "distances": (lambda: positions_of(RelativePositionEmbedding(2, 3)), HEADS, 2**29 - 1, DISTANT),
    "windows": (lambda: places_of(GridPositionBias(2, (2, 8))), HEADS, 7, [*PAIRS, *DISTANT]),
    "windows, a network": (lambda: places_of(ContinuousPositionBias(2, (2, 8))), HEADS, -7, [*PAIRS, *DISTANT]),
    "windows, a class token": (
        lambda: places_of(GridPositionBias(2, (2, 8), class_tokens=1)), (1, LENGTH + 1, 2, 8), 7, [*PAIRS, *DISTANT],
    ),
    "distances, keys": (lambda: keys_of(RelativePositionEmbedding(2, 3)), HEADS, 2**29 - 1, DISTANT),
}  # fmt: skip


def ways() -> dict[str, Callable[[Any], Any]]:
    """Returns how a backend runs a function whose values are not known when it is traced."""
    if BACKEND == "jax":
        import jax

        return {
            "eager": lambda function: function,
            "jit": jax.jit,
            "vmap": lambda function: vmap_over(jax.vmap, function),
        }
    if BACKEND == "torch":
        import torch

        return {
            "eager": lambda function: function,
            "compiled": lambda function: torch.compile(function, backend="aot_eager", fullgraph=False),
        }
    import tensorflow as tf

    return {
        "eager": lambda function: function,
        "graph": tf.function,
        "xla": lambda function: tf.function(function, jit_compile=True),
    }


def vmap_over(vmap: Any, function: Any) -> Any:
    """Returns the function of one example, run as a batch of one."""
    return lambda *tensors: vmap(function)(*(each[None] for each in tensors))[0]


@pytest.fixture(params=ways())
def way(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return ways()[request.param]


QUICK = ("learned", "learned, a start", "rotations", "alibi")
# The cases of a layer differ in code that is the same on every backend: on JAX and PyTorch a few of them are enough.
ELSEWHERE = (
    *("sinusoids", "sinusoids, composed", "sinusoids, unbounded", "features", "times"),
    *("buckets", "distances", "windows", "windows, a network"),
)
SLOW = CASES if BACKEND == "tensorflow" else ELSEWHERE
MARKS = {each: pytest.mark.slow if each in SLOW else pytest.mark.exhaustive for each in CASES if each not in QUICK}


@pytest.mark.filterwarnings("ignore")  # compilers warn of what is deprecated in themselves
@pytest.mark.parametrize("name", [pytest.param(each, marks=MARKS.get(each, ())) for each in CASES])
def test_a_position_without_a_row_is_an_error_or_not_a_number(way: Callable[[Any], Any], name: str) -> None:
    make, shape, last, beyond = CASES[name]
    x, call = ops.ones(shape), make()
    call(x, ops.convert_to_tensor(0, "int32"), ops.convert_to_tensor(0, "int32"))  # makes weights
    run = way(call)
    for position, is_reached in ((0, True), (last, True), *((each, False) for each in beyond)):
        given, found = ops.convert_to_tensor(position, "int32"), None
        with contextlib.nullcontext() if is_reached else contextlib.suppress(Exception):
            found = ops.convert_to_numpy(ops.cast(run(x, given, given), "float32"))
        if is_reached:
            assert np.isfinite(found).all(), (name, position)
        else:
            assert found is None or np.isnan(found).any(), (name, position)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "dtype", ["int32", *(pytest.param(each, marks=pytest.mark.slow) for each in ("int64", "float32"))]
)
def test_positions_and_a_start_that_int32_cannot_add_are_exact_or_refused(
    way: Callable[[Any], Any], dtype: str
) -> None:
    if BACKEND == "jax" and dtype == "int64":
        pytest.skip("JAX has no integers of 64 bits")
    x, layer, alibi = ops.ones((1, LENGTH, 8)), SinusoidalPositionEncoding(combine="replace"), AlibiBias(2)
    run = way(sums_of(layer))
    run_alibi = way(lambda x, position, start: alibi(x, x, positions=ops.stack([position] * LENGTH), start_index=start))
    exact = [(2**30, -(2**30) + 7), (-(2**31) + 128, 2**31 - 128 - 5), (1_764_000_000, -1_763_999_900)]
    wrong = [(2**31 - 1, -(2**30)), (2**31 - 1, 2**31 - 1), (-(2**31), -(2**31)), (-(2**31), 2**30), (2**30, 2**30)]
    wrong += [(5_000_000_000, -(2**31))] if dtype != "int32" else []
    for position, start in (*exact, *wrong):
        held = np.float32(position).astype("int64") if dtype == "float32" else np.int64(position)
        given, begin, found = ops.convert_to_tensor(held, dtype), ops.convert_to_tensor(start, "int32"), None
        is_reached = abs(int(held) + start) < 2**24
        with contextlib.nullcontext() if is_reached else contextlib.suppress(Exception):
            found = ops.convert_to_numpy(run(x, given, begin))[0, 0]
        if is_reached:
            assert np.abs(found - timing_signal(int(held) + start, 8)).max() <= EXACT, (position, start)
        else:
            assert found is None or np.isnan(found).any(), (position, start)
        if dtype != "float32" and not is_reached:
            bias = None
            with contextlib.suppress(Exception):
                bias = ops.convert_to_numpy(run_alibi(x, given, begin))
            assert bias is None or np.isnan(bias).all() or abs(int(held) + start) < 2**29, (position, start)


def test_float_positions_of_a_table_are_refused_where_a_model_is_built() -> None:
    inputs, floats = keras.Input((None, 8)), keras.Input((None,), dtype="float32")
    queries = keras.Input((None, 2, 8))
    xpos = {"rope_type": "xpos"}
    for given in (floats, np.zeros(1, "float32"), np.zeros(1), keras.Input((None,), dtype="bfloat16")):
        for call in (
            lambda p: LearnedPositionEmbedding(9)(inputs, positions=p),
            lambda p: LearnedPositionEmbedding((9, 9))(inputs, positions=[np.zeros(1, "int32"), p]),
            lambda p: RotaryPositionEncoding(max_length=9, scaling=xpos)(queries, queries, positions=p),
            lambda p: AlibiBias(2)(queries, positions=p),
            lambda p: RelativePositionBias(2)(queries, key_positions=p),
            lambda p: RelativePositionEmbedding(2, 3)(queries, positions=p),
        ):
            with pytest.raises(TypeError, match="`positions` must be integers in layer"):
                call(given)
