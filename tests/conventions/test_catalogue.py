"""Each convention is what its codebase computes, and the layer made from it too."""

from collections.abc import Callable

import numpy as np
import pytest

import keras_pe
from keras_pe import timing_signal
from keras_pe.conventions import CONVENTIONS, convention
from tests.golden.signals import RETURNED
from tests.raised import about

Formula = Callable[[np.ndarray, int], np.ndarray]


def halves(positions: np.ndarray, rates: np.ndarray, channels: int) -> np.ndarray:
    angles = np.outer(positions, rates)
    signal = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return np.pad(signal, [(0, 0), (0, channels - signal.shape[1])])


def alternating(positions: np.ndarray, rate_of_pair: Callable[[int], float], channels: int) -> np.ndarray:
    """The formula column by column, as a book would write it."""
    columns = [(np.cos if column % 2 else np.sin)(positions * rate_of_pair(column // 2)) for column in range(channels)]
    return np.stack(columns, axis=1)


def log_spaced(positions: np.ndarray, channels: int) -> np.ndarray:
    # exp(arange(half) * -(log(10000) / (half - 1))): tensor2tensor 1.15.7 get_timing_signal_1d; fairseq 0.12.2
    # SinusoidalPositionalEmbedding.get_embedding; OpenNMT-tf 2.32.0 SinusoidalPositionEncoder._encode;
    # tf-models-official 2.20.0 RelativePositionEmbedding.call; GluonNLP (development) SinusoidalPositionalEmbedding.
    half = channels // 2
    rates = np.exp(np.arange(half) * -(np.log(10000) / (half - 1)))
    return halves(positions, rates, channels)


def x_transformers(positions: np.ndarray, channels: int) -> np.ndarray:
    # x-transformers 2.31.10, ScaledSinusoidalEmbedding.forward, without its trained scale
    half = channels // 2
    return halves(positions, 10000.0 ** -(np.arange(half) / half), channels)


def openai_diffusion(positions: np.ndarray, channels: int) -> np.ndarray:
    # improved_diffusion/nn.py, timestep_embedding: cosines, sines, and a column of zeros where the width is odd
    signal = cosines_first(x_transformers(positions, channels - channels % 2))
    return np.pad(signal, [(0, 0), (0, channels % 2)])


def d2l(positions: np.ndarray, channels: int) -> np.ndarray:
    # d2l 1.0.3, torch.py, PositionalEncoding.__init__
    angles = positions.reshape(-1, 1) / np.power(10000, np.arange(0, channels, 2) / channels)
    table = np.zeros((len(positions), channels))
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def cosines_first(signal: np.ndarray) -> np.ndarray:
    return np.roll(signal, signal.shape[1] // 2, axis=1)


def timm(rows: np.ndarray, columns: np.ndarray, channels: int) -> np.ndarray:
    # timm 1.0.31, build_sincos2d_pos_embed: stack of sin and cos of both coordinates, the phase outermost
    rates = 10000.0 ** -(np.arange(channels // 4) / (channels // 4))
    angles = [np.outer(each, rates) for each in (rows, columns)]
    return np.concatenate([*map(np.sin, angles), *map(np.cos, angles)], axis=1)


def perceiver(rows: np.ndarray, columns: np.ndarray, channels: int) -> np.ndarray:
    # deepmind-research, perceiver/position_encoding.py, generate_fourier_features: pi times a position times frequency
    frequencies = np.linspace(1.0, 224 / 2, channels // 4)
    ends = [2 * each / each.max() - 1 for each in (rows, columns)]
    angles = np.pi * np.concatenate([np.outer(each, frequencies) for each in ends], axis=1)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


FORMULAS: dict[str, Formula] = {
    "tensor2tensor": log_spaced,
    "fairseq": log_spaced,
    "opennmt-tf": log_spaced,
    "model-garden": log_spaced,
    "gluonnlp": log_spaced,
    "x-transformers": x_transformers,
    "d2l": d2l,
    "paper": lambda t, d: alternating(t, lambda i: 10000 ** -(2 * i / d), d),
    "keras-hub": lambda t, d: alternating(t, lambda i: 10000 ** -(2 * i / d), d),
    # The width rounded up to an even one, then cut.
    "positional-encodings": lambda t, d: alternating(t, lambda i: 10000 ** -(2 * i / (d + d % 2)), d),
    "one-based": lambda t, d: alternating(t, lambda i: 10000 ** -(2 * (i + 1) / d), d),
    **dict.fromkeys(
        ("ddpm", "score-sde", "diffusers", "edm-ddpmpp", "whisper", "video-prism", "gemma-audio"), log_spaced
    ),
    "transformer-xl": x_transformers,
    "conformer": lambda t, d: alternating(t, lambda i: 10000 ** -(2 * i / d), d),
    # audiocraft, create_sin_embedding: cosines and sines of positions / 10000 ** (arange(half) / (half - 1))
    "musicgen": lambda t, d: cosines_first(log_spaced(t, d)),
    **dict.fromkeys(
        ("diffusers-unet", "openai-diffusion", "latent-diffusion", "dit", "stable-diffusion-3", "edm-adm"),
        openai_diffusion,
    ),
    "flux": lambda t, d: cosines_first(x_transformers(1000.0 * t, d)),
    # 2 pi * exp(linspace(log(1), log(1000), half))
    "keras-ddim": lambda t, d: halves(t, 2 * np.pi * np.exp(np.linspace(0, np.log(1000), d // 2)), d),
    # exp(linspace(0, -log(10000), half)) in float64, times sqrt(2 / d)
    "mlx": lambda t, d: np.sqrt(2 / d) * log_spaced(t, d),
    "multiples-of-pi": lambda t, d: alternating(t, lambda i: (i + 1) * np.pi * 10000 ** -(2 * (i + 1) / d), d),
}
IMAGES = {
    "tensor2tensor-2d": lambda y, x, d: np.concatenate([log_spaced(y, d // 2), log_spaced(x, d // 2)], 1),
    "mae-2d": lambda y, x, d: np.concatenate([x_transformers(x, d // 2), x_transformers(y, d // 2)], 1),
    "dit-2d": lambda y, x, d: np.concatenate([x_transformers(x, d // 2), x_transformers(y, d // 2)], 1),
    "diffusers-2d": lambda y, x, d: np.concatenate(
        [x_transformers(x * 16 / 7, d // 2), x_transformers(y * 16 / 5, d // 2)], 1
    ),
    "rt-detr-2d": lambda y, x, d: np.concatenate([x_transformers(y, d // 2), x_transformers(x, d // 2)], 1),
    "big-vision-2d": lambda y, x, d: np.concatenate([log_spaced(x, d // 2), log_spaced(y, d // 2)], 1),
    "timm-2d": lambda y, x, d: timm(y, x, d),
    "perceiver-2d": lambda y, x, d: perceiver(y, x, d),
    "detr-2d": lambda y, x, d: np.concatenate([d2l(y + 1, d // 2), d2l(x + 1, d // 2)], 1),
    "positional-encodings-2d": lambda y, x, d: np.concatenate([d2l(y, d // 2), d2l(x, d // 2)], 1),
}
STARTS = {"fairseq": 2, "opennmt-tf": 1}
# The largest angles in radians of packages that form angles in float32: the rate and its exponent, the position and the
# product are rounded.
FLOAT32_ANGLES = {
    **dict.fromkeys(("diffusers", "diffusers-unet", "whisper", "transformer-xl"), 40.0),
    **{"flux": 1000.0, "timm-2d": 7.0, "timm-fourier-2d": 112 * np.pi, "diffusers-2d": 16.0, "gligen": 100.0},
    **{"dab-detr-2d": 2 * np.pi, "sam-2d": 2 * np.pi * 4, "ncsnpp": 2 * np.pi * 16 * 4 * np.log(100)},
}
# test_grids.py has the arithmetic of these.
TRANSPOSED = {"moco-v3-2d", "d-fine-2d"}


def test_every_convention_is_checked() -> None:
    with np.load(RETURNED) as file:
        assert {*FORMULAS, *IMAGES, *TRANSPOSED, *file.files, "nerf", "fourier-features", "edm-fourier"} >= {
            *CONVENTIONS
        }


@pytest.mark.parametrize("channels", [4, 5, 6, 64, 127, 512])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_layer_makes_the_conventions_signal(name: str, channels: int) -> None:
    if channels % 2 and not convention(name).odd_channels:
        with pytest.raises(ValueError, check=about("channels")):
            keras_pe.from_convention(name, channels)
        return
    length = 100
    layer = keras_pe.from_convention(name, channels, combine="replace")
    actual = np.asarray(layer(np.zeros((1, length, channels), np.float32)))[0]
    expected = FORMULAS[name](np.arange(length) + STARTS.get(name, 0), channels)
    # The layer is within 2.5e-7 of the exact signal; the formula's own float64 error is below 1e-12.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2.6e-7)


@pytest.mark.parametrize("channels", [8, 24])
@pytest.mark.parametrize("name", IMAGES)
def test_the_layer_makes_the_signal_of_an_image(name: str, channels: int) -> None:
    layer = keras_pe.from_convention(name, channels, combine="replace")
    actual = np.asarray(layer(np.zeros((1, 5, 7, channels), np.float32)))[0]
    rows, columns = (each.reshape(-1) for each in np.meshgrid(np.arange(5), np.arange(7), indexing="ij"))
    expected = IMAGES[name](rows, columns, channels).reshape(5, 7, channels)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2.6e-7)


def test_points_in_space_are_encoded_as_by_nerf() -> None:
    points = np.random.default_rng(0).uniform(-4, 4, (9, 3)).astype("float32")
    layer = keras_pe.from_convention("nerf", 60, combine="replace")
    actual = np.asarray(layer(np.zeros((1, 9, 60), np.float32), positions=list(points.T)))[0]
    # bmild/nerf 14c5556, Embedder: for each of ten frequencies the sines of x, y and z, then their cosines
    wide = points.astype("float64")
    expected = np.concatenate([wave(wide * 2.0**k) for k in range(10) for wave in (np.sin, np.cos)], axis=1)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2.6e-7)
    with pytest.raises(ValueError, match="a multiple of 6, a number of at least 6"):
        keras_pe.from_convention("nerf", 64)
    with pytest.raises(ValueError, match="a multiple of 4"):
        keras_pe.from_convention("rt-detr-2d", 6)


def test_signals_are_what_the_packages_themselves_returned() -> None:
    with np.load(RETURNED) as file:
        names = [name for name in file.files if "/" not in name]
        assert len(names) >= 17
        for name in names:
            table, called, made = file[name], {}, {}
            if f"{name}/positions" in file:
                positions = file[f"{name}/positions"]
                called = {"positions": list(positions) if positions.ndim == 2 else positions}
            if f"{name}/matrix" in file:
                made = {"matrix": file[f"{name}/matrix"]}
            layer = keras_pe.from_convention(name, table.shape[-1], combine="replace", **made)
            actual = np.asarray(layer(np.zeros((1, *table.shape), np.float32), **called))[0]
            tolerance = 2.5e-7 + 4 * 2.0**-24 * FLOAT32_ANGLES.get(name, 0.0)
            np.testing.assert_allclose(actual, table, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("channels", [2, 3, 6, 7, 64])
def test_positional_encodings_package_agrees(channels: int) -> None:
    from positional_encodings.tf_encodings import TFPositionalEncoding1D

    expected = TFPositionalEncoding1D(channels)(np.zeros((1, 50, channels), np.float32))[0]
    each = convention("positional-encodings")
    actual = timing_signal(np.arange(50), channels, layout=each.layout, timescales=each.timescales(channels))
    # Its rates and products are float32: 50 positions times half a unit of each, 6e-8, twice.
    np.testing.assert_allclose(actual, expected, rtol=0, atol=6e-6)


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 7, 64])
@pytest.mark.parametrize("longest", [10_000, 500])
def test_keras_hub_agrees(channels: int, longest: int) -> None:
    from keras_hub.layers import SinePositionEncoding

    inputs = np.zeros((2, 50, channels), np.float32)
    expected = SinePositionEncoding(max_wavelength=longest)(inputs)
    layer = keras_pe.from_convention("keras-hub", channels, max_timescale=longest, combine="replace")
    np.testing.assert_allclose(np.broadcast_to(layer(inputs), inputs.shape), expected, rtol=0, atol=6e-6)


class TestExpectationsOfKerasHub:
    """The values that keras-hub's sine_position_encoding_test.py expects of its layer."""

    @staticmethod
    def layer(channels: int) -> "keras_pe.SinusoidalPositionEncoding":
        return keras_pe.from_convention("keras-hub", channels, combine="replace")

    def test_output_correct_values(self) -> None:
        output = np.asarray(self.layer(6)(np.zeros((1, 4, 6), np.float32)))
        np.testing.assert_allclose(output[0, 0], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0], rtol=0.01, atol=0.01)
        expected = [0.14112, -0.98999, 0.13879, 0.99032, 0.00646, 0.99997]
        np.testing.assert_allclose(output[0, 3], expected, rtol=0.01, atol=0.01)

    def test_start_index(self) -> None:
        layer, data = self.layer(4), np.zeros((2, 3, 4), np.float32)
        full = np.broadcast_to(layer(data), data.shape)
        for i in range(3):
            part = np.broadcast_to(layer(data[:, i : i + 1], start_index=i), (2, 1, 4))
            np.testing.assert_allclose(full[:, i : i + 1], part, rtol=1e-6, atol=1e-6)

    def test_positions(self) -> None:
        from keras_hub.layers import SinePositionEncoding

        data = np.zeros((2, 3, 4), np.float32)
        for positions in (np.array([2, 0, 7]), np.array([[2, 0, 7], [1, 1, 30]])):
            expected = SinePositionEncoding()(data, positions=positions.astype(np.float32))
            actual = np.broadcast_to(self.layer(4)(data, positions=positions), data.shape)
            np.testing.assert_allclose(actual, expected, rtol=0, atol=6e-6)


def test_expectations_of_relative_position_embedding() -> None:
    # tf-models-official 2.20.0, position_embedding_test.py: test_relative_tensor_input, test_relative_length_input
    layer = keras_pe.from_convention("model-garden", 8, combine="replace")
    output = np.asarray(layer(np.zeros((1, 1, 8), np.float32)))
    np.testing.assert_array_equal(output[0], [[0, 0, 0, 0, 1, 1, 1, 1]])


def test_arguments_of_the_caller_win() -> None:
    layer = keras_pe.from_convention("fairseq", 8, start_index=6, combine="concatenate", name="where")
    assert (layer.start_index, layer.combine, layer.name, layer.max_timescale) == (6, "concatenate", "where", 1.0e4)
    assert keras_pe.from_convention("fairseq", 8, max_timescale=500).max_timescale == 500


def test_an_unknown_convention_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"`name` must be a convention. Received: 'fairsec'.*Did you mean 'fairseq'"):
        keras_pe.from_convention("fairsec", 8)


@pytest.mark.parametrize(("name", "channels"), [("fairseq", 3), ("opennmt-tf", 2), ("d2l", 5), ("model-garden", 9)])
def test_a_width_the_codebase_has_no_answer_for_is_refused(name: str, channels: int) -> None:
    with pytest.raises(ValueError, match=f"`channels` must be .* in the convention {name!r}"):
        keras_pe.from_convention(name, channels)
