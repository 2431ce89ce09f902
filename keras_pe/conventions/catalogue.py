"""The conventions in circulation, each as arguments of the one layer."""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_pe.layouts import Layout, check_channels
from keras_pe.timescales import Float64Array, check_range, resolve_timescales

if TYPE_CHECKING:
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding

Schedule = Callable[[int, float], dict[str, Any]]


@dataclass(frozen=True)
class Convention:
    """One codebase's choice of timescales, layout and first position.

    Attributes:
        name: What `from_convention` and `identify` call it.
        source: Where the formula stands.
        layout: Order of the columns.
        schedule: Returns the layer's arguments for the timescales of `(channels, max_timescale)`.
        start_index: Position of the first token.
        min_channels: Narrowest width for which the codebase returns numbers.
        odd_channels: Whether the codebase has an answer for odd widths.
    """

    name: str
    source: str
    layout: Layout
    schedule: Schedule
    start_index: int = 0
    min_channels: int = 1
    odd_channels: bool = False

    def layer_arguments(self, channels: int, max_timescale: float = 1.0e4) -> dict[str, Any]:
        """Returns the arguments of `SinusoidalPositionEncoding` that give this convention's signal.

        Raises:
            ValueError: If the codebase has no signal of this width, or if `max_timescale` is less than 1.
        """
        check_channels(channels)
        check_range(1.0, max_timescale)
        if channels < self.min_channels or (channels % 2 and not self.odd_channels):
            kind = "any" if self.odd_channels else "an even"
            raise ValueError(
                f"`channels` must be {kind} number of at least {self.min_channels} in the convention {self.name!r}: "
                f"its source defines no other ({self.source}). Received: channels={channels}."
            )
        return {
            "start_index": self.start_index,
            "layout": self.layout,
            **self.schedule(channels, float(max_timescale)),
        }

    def timescales(self, channels: int, max_timescale: float = 1.0e4) -> Float64Array:
        """Returns the timescales of this convention's signal, in positions."""
        arguments = self.layer_arguments(channels, max_timescale)
        del arguments["start_index"], arguments["layout"]
        return resolve_timescales(channels, **arguments)


def _last_is_longest(channels: int, longest: float) -> dict[str, Any]:
    return {"max_timescale": longest, "endpoint": True}


def _paper(channels: int, longest: float) -> dict[str, Any]:
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    # The last column is the sine of one more timescale, its cosine cut off.
    return {"timescales": _powers(longest, 2 * np.arange((channels + 1) // 2) / channels)}


def _paper_of_next_even_width(channels: int, longest: float) -> dict[str, Any]:
    if channels % 2 == 0:
        return {"max_timescale": longest, "endpoint": False}
    return {"timescales": _powers(longest, 2 * np.arange((channels + 1) // 2) / (channels + 1))}


def _one_based(channels: int, longest: float) -> dict[str, Any]:
    return {"timescales": _powers(longest, 2 * np.arange(1, channels // 2 + 1) / channels)}


def _multiples_of_pi(channels: int, longest: float) -> dict[str, Any]:
    # k counts from 1: with k = 0 the rate is zero and the timescale infinite, two columns that never change.
    k = np.arange(1, channels // 2 + 1)
    scales = np.asarray(_powers(longest, 2 * k / channels)) / (k * math.pi)
    return {"timescales": tuple(scales.tolist())}


def _powers(base: float, exponents: Float64Array) -> tuple[float, ...]:
    return tuple((base**exponents).tolist())


_TENSOR2TENSOR = "tensor2tensor 1.15.7, layers/common_attention.py, get_timing_signal_1d"
_PAPER = "Vaswani et al., Attention Is All You Need, section 3.5"

CONVENTIONS: dict[str, Convention] = {
    each.name: each
    for each in (
        Convention("tensor2tensor", _TENSOR2TENSOR, "concatenated", _last_is_longest, odd_channels=True),
        Convention("paper", _PAPER, "interleaved", _paper, odd_channels=True),
        # The first token is at padding_idx + 1, and fairseq's dictionaries have their padding at 1. The row of
        # padding_idx itself is zeroed there; here a mask does that.
        Convention(
            "fairseq",
            "fairseq 0.12.2, modules/sinusoidal_positional_embedding.py",
            "concatenated",
            _last_is_longest,
            start_index=2,
            min_channels=4,
            odd_channels=True,
        ),
        Convention(
            "opennmt-tf",
            "OpenNMT-tf 2.32.0, layers/position.py, SinusoidalPositionEncoder",
            "concatenated",
            _last_is_longest,
            start_index=1,
            min_channels=4,
        ),
        Convention(
            "keras-hub",
            "keras-hub 0.32.0, layers/modeling/sine_position_encoding.py",
            "interleaved",
            _paper,
            odd_channels=True,
        ),
        # Its table of an odd width is one column narrower than asked for, so odd widths are not its.
        Convention(
            "model-garden",
            "tf-models-official 2.20.0, nlp/modeling/layers/position_embedding.py, RelativePositionEmbedding",
            "concatenated",
            _last_is_longest,
            min_channels=4,
        ),
        Convention(
            "positional-encodings",
            "positional-encodings 6.0.3, tf_encodings.py, TFPositionalEncoding1D",
            "interleaved",
            _paper_of_next_even_width,
            odd_channels=True,
        ),
        # The releases on PyPI (to 0.10.0) give a sine and its cosine different timescales, 10000**(2 j / d) for column
        # j. Such columns are no rotation, and no argument of the layer makes them.
        Convention(
            "gluonnlp",
            "GluonNLP's development branch, layers.py, SinusoidalPositionalEmbedding",
            "concatenated",
            _last_is_longest,
            min_channels=4,
            odd_channels=True,
        ),
        # Multiplied there by a trained scalar that begins at channels ** -0.5.
        Convention(
            "x-transformers",
            "x-transformers 2.31.10, x_transformers.py, ScaledSinusoidalEmbedding",
            "concatenated",
            _paper,
            min_channels=2,
        ),
        Convention("d2l", "d2l 1.0.3, torch.py, PositionalEncoding", "interleaved", _paper, min_channels=2),
        Convention(
            "one-based",
            "sin(t / L**(2 i / d)), 0 < i <= d / 2: the paper's formula with i counted from 1",
            "interleaved",
            _one_based,
            min_channels=2,
        ),
        Convention(
            "multiples-of-pi",
            "rates k * pi / 10000**(2 k / d), 0 < k <= d / 2",
            "interleaved",
            _multiples_of_pi,
            min_channels=2,
        ),
    )
}


def convention(name: str) -> Convention:
    """Returns the convention of this name, or raises ValueError with the nearest one."""
    if name in CONVENTIONS:
        return CONVENTIONS[name]
    near = difflib.get_close_matches(str(name), CONVENTIONS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"Unknown convention {name!r}. Choose one of: {', '.join(CONVENTIONS)}.{hint}")


def from_convention(
    name: str, channels: int, /, *, max_timescale: float = 1.0e4, **kwargs: Any
) -> "SinusoidalPositionEncoding":
    """Returns the layer that encodes positions as another codebase does.

    Args:
        name: One of `keras_pe.conventions.CONVENTIONS`.
        channels: Width of the inputs. Some conventions depend on it in ways that only explicit timescales express.
        max_timescale: The codebase's 10,000, under whatever name it goes there.
        **kwargs: Further arguments of `SinusoidalPositionEncoding`; they win over the convention's. fairseq with
            another `padding_idx` is `start_index=padding_idx + 1`.

    Raises:
        ValueError: If the name is unknown, or if the codebase has no signal of this width.
    """
    from keras_pe.layers.sinusoidal_position_encoding import SinusoidalPositionEncoding

    return SinusoidalPositionEncoding(**{**convention(name).layer_arguments(channels, max_timescale), **kwargs})
