"""The relative bias of Swin v2: a small network of log-spaced distances on a grid."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.base import check_count, plain
from keras_pe.layers.call_arguments import Shape
from keras_pe.layers.grid_bias_base import GridBiasLayer
from keras_pe.rotations.lookup import Table
from keras_pe.signal.distances import log_spaced_distances
from keras_pe.signal.resizing import check_grid_shape


@keras.saving.register_keras_serializable(package="keras_pe")
class ContinuousPositionBias(GridBiasLayer):
    """Returns the bias that a network of two layers computes from the log-spaced distance of query and key (Swin v2).

    The bias is `16 * sigmoid(relu(distance @ hidden_kernel + hidden_bias) @ output_kernel)`. Each axis of the distance
    is `sign(x) * log2(1 + |x|) / 3`, where `x` goes from -8 to 8 over the trained window. The network takes any
    distance, so the weights of one window fit another.

    The weights are `hidden_kernel`, `(axes, units)`, `hidden_bias`, `(units,)`, and `output_kernel`,
    `(units, num_heads)`. PyTorch's `cpb_mlp` stores both kernels transposed.

    Args:
        num_heads: Number of heads.
        grid_shape: Sizes of the window.
        pretrained_grid_shape: Sizes of the window that the weights are trained with, if they differ
            (`pretrained_window_size`).
        units: Width of the hidden layer.
        kernel_initializer: Initial values of both kernels.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        As in `GridPositionBias`.

    Returns:
        As `GridPositionBias`.

    Raises:
        ValueError: As in `GridPositionBias`.
        TypeError: If positions are floats.

    Source:
        Liu et al., "Swin Transformer V2", arXiv 2111.09883, section 3.3.

    >>> windows = keras.ops.zeros((8, 8 * 8, 3, 32))
    >>> tuple(ContinuousPositionBias(3, (8, 8))(windows).shape)  # heads, queries, keys
    (1, 3, 64, 64)
    """

    def __init__(
        self,
        num_heads: int,
        grid_shape: Sequence[int],
        *,
        pretrained_grid_shape: Sequence[int] | None = None,
        units: int = 512,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads=num_heads, grid_shape=grid_shape, class_tokens=0, **kwargs)
        trained = self.grid_shape
        if pretrained_grid_shape is not None:
            trained = check_grid_shape(pretrained_grid_shape, "pretrained_grid_shape")
        if len(trained) != len(self.grid_shape):
            raise ArgValueError(
                "pretrained_grid_shape",
                f"must have one size for each of the {len(self.grid_shape)} axes of "
                f"`grid_shape`. Received: {pretrained_grid_shape=}.",
            )
        self.pretrained_grid_shape = None if pretrained_grid_shape is None else trained
        self.units = check_count("units", units)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self._dtype_of_bias = "float64" if self.compute_dtype == "float64" else "float32"
        self._distances = Table(log_spaced_distances(self.grid_shape, trained).astype(self._dtype_of_bias))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "pretrained_grid_shape": plain(self.pretrained_grid_shape),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }

    def build(self, queries_shape: Shape) -> None:
        self._hidden_kernel = self._weight("hidden_kernel", (len(self.grid_shape), self.units), self.kernel_initializer)
        self._hidden_bias = self._weight("hidden_bias", (self.units,), "zeros")
        initializer = self.kernel_initializer
        if hasattr(initializer, "clone"):
            initializer = initializer.clone()  # the same initializer would draw the same values again
        self._output_kernel = self._weight("output_kernel", (self.units, self.num_heads), initializer)

    def _weight(self, name: str, shape: tuple[int, ...], initializer: Any) -> Any:
        """Returns a new weight, which Keras does not round to the compute dtype."""
        return self.add_weight(name=name, shape=shape, initializer=initializer, autocast=False)

    def _rows(self) -> Any:
        weights = self._hidden_kernel, self._hidden_bias, self._output_kernel
        kernel, bias, output_kernel = (ops.cast(each, self._dtype_of_bias) for each in weights)
        hidden = ops.relu(ops.matmul(self._distances.tensor(), kernel) + ops.expand_dims(bias, 0))
        return 16.0 * ops.sigmoid(ops.matmul(hidden, output_kernel))
