"""The sinusoidal embedding of a diffusion model's time steps."""

from types import SimpleNamespace
from typing import Any

import keras
import numpy as np

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.axes import Axis, AxisEncoding, axis_encoding
from keras_pe.layers.axis_positions import Positions, open_positions, resolve_positions, split_on_host
from keras_pe.layers.base import check_count
from keras_pe.layers.call_arguments import (
    Shape,
    check_before_conversion,
    check_positions_dtype,
    check_values_reach,
    read_variables,
)
from keras_pe.rotations.static_values import outside_of_traces
from keras_pe.signal.formula import check_number
from keras_pe.signal.layouts import Layout


@keras.saving.register_keras_serializable(package="keras_pe")
class TimestepEmbedding(keras.layers.Layer):  # type: ignore[misc]
    """Returns sines and cosines of integer or fractional time steps, as `get_timestep_embedding` of diffusers does.

    Column `i` of `n = num_channels // 2` sines is that of `scale * time * max_period ** (-i / (n -
    downscale_freq_shift))`. Steps are never rounded to the compute dtype, because bfloat16 cannot distinguish all
    integers above 256.

    Args:
        num_channels: Width of the result; an odd last column is zero.
        flip_sin_to_cos: Whether the cosines come first, as in Stable Diffusion's U-Net and most transformers.
        downscale_freq_shift: 1 ends at the longest timescale, as tensor2tensor; 0 stops one step before, as the paper.
        scale: Factor of the times: 1000 for Flux, whose times run from 0 to 1.
        max_period: The formula's 10,000.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        timesteps: Integers or floats of any shape, `(batch,)` in most models; also a number, or a list of numbers.

    Returns:
        `(*timesteps.shape, num_channels)`, within 2.5e-7 of the exact numbers, cast to the compute dtype last.

    Source:
        diffusers 0.42.1, models/embeddings.py, `get_timestep_embedding`.

    >>> import numpy as np
    >>> embedding = TimestepEmbedding(4, flip_sin_to_cos=True, downscale_freq_shift=0)
    >>> keras.ops.convert_to_numpy(embedding(np.array([1]))).round(3)
    array([[0.54 , 1.   , 0.841, 0.01 ]], dtype=float32)
    """

    def __init__(
        self,
        num_channels: int,
        flip_sin_to_cos: bool = False,
        downscale_freq_shift: float = 1.0,
        scale: float = 1.0,
        max_period: float = 10_000.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.num_channels = check_count("num_channels", num_channels, least=2)
        if downscale_freq_shift != 0:
            check_number("downscale_freq_shift", downscale_freq_shift)
        if downscale_freq_shift >= num_channels // 2:
            raise ArgValueError(
                "downscale_freq_shift",
                f"must be less than the {num_channels // 2} timescales of {num_channels} "
                f"channels. Received: {downscale_freq_shift=}.",
            )
        self.flip_sin_to_cos = bool(flip_sin_to_cos)
        self.downscale_freq_shift = float(downscale_freq_shift)
        self.scale = float(check_number("scale", scale))
        self.max_period = float(check_number("max_period", max_period))
        # TorchDynamo would trace the timescales' NumPy if `call` made them.
        self._held = SimpleNamespace(encoding=self._make_encoding(), reach=self._axis.reach)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        names = ("num_channels", "flip_sin_to_cos", "downscale_freq_shift", "scale", "max_period")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}

    def __call__(self, timesteps: Any, **kwargs: Any) -> Any:
        # Keras takes no number for a tensor, and converts what it is given before `call` sees it.
        timesteps = np.asarray(timesteps) if isinstance(timesteps, (int, float, list, tuple)) else timesteps
        check_before_conversion(timesteps, timesteps, None, self.name)
        return super().__call__(split_on_host(timesteps), **kwargs)

    def call(self, timesteps: Any) -> Any:
        timesteps = open_positions(read_variables(timesteps))
        check_positions_dtype("timesteps", _first(timesteps).dtype)
        low, high = self._held.reach
        check_values_reach(timesteps, None, low, high, self.name)
        signal = self._held.encoding.signal(None, resolve_positions(timesteps, None, None))
        return keras.ops.cast(signal, self.compute_dtype)

    def compute_output_spec(self, timesteps: Any) -> Any:
        """Returns shape and dtype of the embedding."""
        first = _first(open_positions(timesteps))
        check_positions_dtype("timesteps", first.dtype)
        return keras.KerasTensor((*first.shape, self.num_channels), self.compute_dtype)

    def compute_output_shape(self, timesteps_shape: Shape) -> Shape:
        return (*timesteps_shape, self.num_channels)

    @property
    def _axis(self) -> Axis:
        count = self.num_channels // 2
        growth = self.max_period ** (1.0 / (count - self.downscale_freq_shift))
        timescales = growth ** np.arange(count) / self.scale
        layout: Layout = "cosine_first" if self.flip_sin_to_cos else "concatenated"
        dtype = "float64" if self.compute_dtype == "float64" else "float32"
        return Axis(tuple(timescales.tolist()), self.num_channels, layout, 0, None, dtype)

    @outside_of_traces
    def _make_encoding(self) -> AxisEncoding:
        return axis_encoding(self._axis)


def _first(timesteps: Any) -> Any:
    """Returns times, or the first part of those that were split before Keras converts them."""
    return timesteps.nearest if isinstance(timesteps, Positions) else timesteps
