from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_pe.export import ExportError
from tests.export.onnx.exported import assert_cases_agree, onnx_results

# The tolerance is a share of the largest value. A sum of n numbers of one size is off by about sqrt(n) half-ulps, which
# is 2.7e-6 of its usual size for 2048. The largest of so many sums is about three times the usual. An inexact DFT of
# ONNX Runtime is off by 1e-5 at 100, and by more above.
TOLERANCE = 2e-6
SIZES = [(1, 2), (3, 7), (5, 100), (2, 1009), (4, 64)]
LINES: dict[str, Callable[..., Any]] = {
    "rfft": lambda x, y: ops.rfft(x),
    "irfft": lambda x, y: ops.irfft((x, y)),
    "fft": lambda x, y: ops.fft((x, y)),
    "ifft": lambda x, y: _parts(tf.signal.ifft(tf.complex(x, y))),
}
PLANES: dict[str, Callable[..., Any]] = {
    "fft2": lambda x, y: ops.fft2((x, y)),
    "ifft2": lambda x, y: ops.ifft2((x, y)),
    "ifft2d": lambda x, y: _parts(tf.signal.ifft2d(tf.complex(x, y))),
}


def slow(value: Any) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


def _parts(x: Any) -> tuple[Any, Any]:
    return tf.math.real(x), tf.math.imag(x)


def _each(functions: dict[str, Callable[..., Any]], *names: str) -> Callable[..., Any]:
    """Returns one function with the results of the named functions, or of all, so that one export covers them."""
    return lambda *x: [functions[name](*x) for name in names or functions]


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).normal(size=shape).astype("float32")


def _agrees(
    function: Callable[..., Any],
    shapes: list[tuple[int | None, ...]],
    trials: list[tuple[int, ...]],
    folder: Path,
    opset: int = 18,
    tolerance: float = TOLERANCE,
) -> None:
    """Exports once, and compares with Keras at each of the shapes, which all inputs have in common."""
    cases = [[_normal(*trial) + i for i in range(len(shapes))] for trial in trials]
    tolerances = {"atol": lambda truth: tolerance * max(1, np.abs(truth).max())}
    assert_cases_agree(function, shapes, cases, folder, opset_version=opset, **tolerances)


@pytest.mark.slow
def test_a_transform_of_planes_agrees_at_sizes_never_traced(tmp_path: Path) -> None:
    _agrees(_each(PLANES), [(None, None, None)] * 2, [(2, 3, 7), (3, 16, 5), (1, 100, 9)], tmp_path)
    _agrees(_each(PLANES), [(None, 6, None)] * 2, [(2, 6, 7), (3, 6, 5), (1, 6, 90)], tmp_path)


@pytest.mark.quick_rows(1)
# By matrix up to 2047, by the operator from 1024 (complex) or 2048 (real), by chirp from 1025 (complex) or 2049 (real).
@pytest.mark.slow_rows(4)
@pytest.mark.parametrize(
    "length", [9, 512, 2050, *(slow(length) for length in (1, 2, 10, 400, 1024, 1025, 2047, 2048, 4096, 5001))]
)
def test_a_transform_agrees_at_every_fixed_length(length: int, tmp_path: Path) -> None:
    def call(x: Any) -> Any:
        spectrum = ops.rfft(x)
        return spectrum, ops.irfft(spectrum, length), ops.fft((x, x + 1))

    _agrees(call, [(None, length)], [(1, length), (3, length)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(None, None), (None, 9)])
def test_a_given_length_cuts_the_input_or_fills_it_up(shape: tuple[int | None, ...], tmp_path: Path) -> None:
    def call(x: Any, y: Any) -> Any:
        return [(ops.rfft(x, length), ops.irfft((x, y), length)) for length in (6, 7, 24, 25)]

    _agrees(call, [shape, shape], [(2, 9), *([(3, 5), (1, 40)] if shape[1] is None else [])], tmp_path)


def test_a_single_signal_needs_no_batch(tmp_path: Path) -> None:
    _agrees(lambda x: ops.rfft(x), [(None,)], [(7,), (100,)], tmp_path)


@pytest.mark.slow
def test_double_precision_stays_double(tmp_path: Path) -> None:
    def call(x: Any) -> Any:
        return ops.rfft(ops.cast(x, "float64"))  # a layer casts its inputs to float32

    for name, shape in (("dynamic", (None, None)), ("fixed", (None, 100))):
        (tmp_path / name).mkdir()
        _agrees(call, [shape], [(3, 100)], tmp_path / name, tolerance=1e-14)


@pytest.mark.quick_rows(2)
@pytest.mark.parametrize(("length", "opset"), [
    (100, 17), (None, 17), (None, 18), (100, 15), (100, 20), (None, 20), (100, 25), (None, 25),
])  # fmt: skip
def test_a_transform_agrees_at_every_opset_and_at_lengths_never_traced(
    length: int | None, opset: int, tmp_path: Path
) -> None:
    names = ["rfft", "irfft", "fft"] if opset != 18 else []
    _agrees(_each(LINES, *names), [(None, length)] * 2, [(3, 100)] if length else SIZES, tmp_path, opset=opset)


def test_a_dynamic_length_is_refused_below_opset_17(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"'RFFT' .* needs opset 17\. Export with opset_version=17 or later, or give"):
        _agrees(ops.rfft, [(None, None)], SIZES, tmp_path, opset=16)


@pytest.mark.slow
def test_the_frames_of_speech_agree_at_lengths_never_traced(tmp_path: Path) -> None:
    def call(x: Any) -> Any:
        return [ops.stft(x, 400, 160, count, center=center) for count in (400, 512) for center in (True, False)]

    _agrees(call, [(None, None)], [(3, 700), (2, 1601), (1, 4000)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("fft_length", [400, 512])
def test_the_sound_of_frames_agrees_at_lengths_never_traced(fft_length: int, tmp_path: Path) -> None:
    def call(x: Any, y: Any) -> Any:
        return [ops.istft((x, y), 400, 160, fft_length, length=length) for length in (None, 800)]

    bins = fft_length // 2 + 1
    _agrees(call, [(None, None, bins)] * 2, [(3, 7, bins), (2, 12, bins), (1, 31, bins)], tmp_path)


@pytest.mark.parametrize("opset", [18, slow(15), slow(20)])
def test_the_mel_spectrogram_agrees_with_its_own_defaults(opset: int, tmp_path: Path) -> None:
    layer = keras.layers.MelSpectrogram()
    _agrees(layer, [(None, None)], [(3, 2700), (2, 4601), (1, 9000)], tmp_path, opset=opset)


def test_the_imaginary_part_of_a_sum_that_is_real_is_zero(tmp_path: Path) -> None:
    """Its sign would decide whether the angle of a negative number is pi or -pi."""
    x = np.random.default_rng(0).normal(size=(4, 30)).astype("float32")
    (imaginary,) = onnx_results(lambda x: ops.rfft(x)[1], [x], tmp_path)
    np.testing.assert_array_equal(imaginary[:, [0, 15]], 0)
