"""The table of all known conventions."""

from typing import TYPE_CHECKING, Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.conventions.definition import Convention
from keras_pe.conventions.images import IMAGES
from keras_pe.conventions.random_features import RANDOM_FEATURES
from keras_pe.conventions.schedules import (
    last_is_longest,
    multiples_of_pi,
    one_based,
    paper,
    paper_of_next_even_width,
)
from keras_pe.conventions.timesteps import TIMESTEPS
from keras_pe.display import did_you_mean

if TYPE_CHECKING:
    from keras_pe.layers.fourier_features import FourierFeatures
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding

_TENSOR2TENSOR = "tensor2tensor 1.15.7, layers/common_attention.py, get_timing_signal_1d"
_PAPER = "Vaswani et al., Attention Is All You Need, section 3.5"

CONVENTIONS: dict[str, Convention] = {
    each.name: each
    for each in (
        Convention("tensor2tensor", _TENSOR2TENSOR, "concatenated", last_is_longest, odd_channels=True),
        Convention("paper", _PAPER, "interleaved", paper, odd_channels=True),
        # The first token has position padding_idx + 1, and fairseq's dictionaries have padding_idx = 1. The row of
        # padding_idx is zero in fairseq; this package uses a mask instead.
        Convention(
            "fairseq",
            "fairseq 0.12.2, modules/sinusoidal_positional_embedding.py",
            "concatenated",
            last_is_longest,
            start_index=2,
            min_channels=4,
            odd_channels=True,
        ),
        Convention(
            "opennmt-tf",
            "OpenNMT-tf 2.32.0, layers/position.py, SinusoidalPositionEncoder",
            "concatenated",
            last_is_longest,
            start_index=1,
            min_channels=4,
        ),
        Convention(
            "keras-hub",
            "keras-hub 0.32.0, layers/modeling/sine_position_encoding.py",
            "interleaved",
            paper,
            odd_channels=True,
        ),
        # For an odd width, the table there is one column too narrow, so odd widths are not supported.
        Convention(
            "model-garden",
            "tf-models-official 2.20.0, nlp/modeling/layers/position_embedding.py, RelativePositionEmbedding",
            "concatenated",
            last_is_longest,
            min_channels=4,
        ),
        Convention(
            "positional-encodings",
            "positional-encodings 6.0.3, tf_encodings.py, TFPositionalEncoding1D",
            "interleaved",
            paper_of_next_even_width,
            odd_channels=True,
        ),
        # The releases on PyPI (to 0.10.0) give a sine and its cosine different timescales, 10000**(2 j / d) for column
        # j. Such columns are not a rotation, and the layer cannot express them.
        Convention(
            "gluonnlp",
            "GluonNLP's development branch, layers.py, SinusoidalPositionalEmbedding",
            "concatenated",
            last_is_longest,
            min_channels=4,
            odd_channels=True,
        ),
        # The codebase multiplies the signal by a trained scalar, which starts at channels ** -0.5.
        Convention(
            "x-transformers",
            "x-transformers 2.31.10, x_transformers.py, ScaledSinusoidalEmbedding",
            "concatenated",
            paper,
            min_channels=2,
        ),
        Convention("d2l", "d2l 1.0.3, torch.py, PositionalEncoding", "interleaved", paper, min_channels=2),
        Convention(
            "one-based",
            "sin(t / L**(2 i / d)), 0 < i <= d / 2: the paper's formula with i counted from 1",
            "interleaved",
            one_based,
            min_channels=2,
        ),
        Convention(
            "multiples-of-pi",
            "rates k * pi / 10000**(2 k / d), 0 < k <= d / 2",
            "interleaved",
            multiples_of_pi,
            min_channels=2,
        ),
        *TIMESTEPS,
        *IMAGES,
        *RANDOM_FEATURES,
    )
}


def convention(name: str) -> Convention:
    """Returns the convention with this name. Raises ValueError with the most similar name if it is unknown."""
    if name in CONVENTIONS:
        return CONVENTIONS[name]
    hint = did_you_mean(name, CONVENTIONS)
    raise ArgValueError(
        "name", f"must be a convention. Received: {name!r}. Choose one of: {', '.join(CONVENTIONS)}.{hint}"
    )


def from_convention(
    name: str, channels: int, /, *, max_timescale: float | None = None, **kwargs: Any
) -> "SinusoidalPositionEncoding | FourierFeatures":
    """Returns the layer that encodes positions as another codebase does.

    The layer is a `SinusoidalPositionEncoding`. If the codebase draws a random matrix, the layer is `FourierFeatures`,
    and `matrix` must be passed, in turns (`Convention.schedule` is None for such a codebase).

    Args:
        name: One of `keras_pe.conventions.CONVENTIONS`.
        channels: Width of the inputs. Some conventions depend on it in ways that only explicit timescales express.
        max_timescale: The codebase's counterpart of 10,000, whatever its name there; None for the codebase's default.
        **kwargs: Further arguments of the layer, which override those of the convention. For fairseq with another
            `padding_idx`, pass `start_index=padding_idx + 1`. For MAE's table with a row of zeros for its class token,
            pass `grid_shape=(14, 14), class_tokens=1`.

    Raises:
        ValueError: If the name is unknown, or the codebase has no signal of this width.
        TypeError: If a matrix is missing, or is passed for a convention without one.

    >>> from_convention("fairseq", 512).start_index
    2
    """
    from keras_pe.layers.fourier_features import FourierFeatures
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding

    found = convention(name)
    if (found.schedule is None) != ("matrix" in kwargs):
        rule = "be given" if found.schedule is None else "not be given"
        raise ArgTypeError(
            "matrix",
            f"must {rule} for the convention {name!r} ({found.source}). "
            f"Received: {', '.join(kwargs) or 'no arguments'}.",
        )
    arguments = {**found.layer_arguments(channels, max_timescale), **kwargs}
    return SinusoidalPositionEncoding(**arguments) if found.schedule else FourierFeatures(**arguments)
