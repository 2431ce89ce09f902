"""The relative bias of Swin and BEiT: a trained number for each distance on a grid."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_pe.layers.call_arguments import Shape
from keras_pe.layers.grid_bias_base import GridBiasLayer


@keras.saving.register_keras_serializable(package="keras_pe")
class GridPositionBias(GridBiasLayer):
    """Returns a trained bias of each head for the distance of query and key along the axes of a grid (Swin, BEiT).

    The table has the rows of `relative_position_bias_table`, one for each distance in a grid of sizes `2 * size - 1`.
    With a class token it has three more. `layer.set_weights([table])` loads it, and
    `keras_pe.resize_position_table` resizes it for another window.

    Args:
        num_heads: Number of heads.
        grid_shape: Sizes of the grid: of Swin's window, or of the patches of BEiT's image.
        class_tokens: Number of tokens before those of the grid: 0, or 1 as in BEiT.
        initializer: Initial values of the table, `(rows, num_heads)`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        queries: `(batch, tokens, ...)`, the cells of the grid row after row; only their number is read.
        positions: Positions of the tokens after the class token, if the tokens are not the whole grid. A list of one
            integer tensor per axis, `(cells,)` or `(batch, cells)`.

    Returns:
        `(1, num_heads, tokens, tokens)`, or `(batch, ...)` if the rows have different positions: the argument `bias` of
        `keras.ops.dot_product_attention`.

    Raises:
        ValueError: If an argument is not valid, or if two positions are further apart than cells of the grid. If only
            the running graph knows the positions, the graph fails or returns NaN, as in `LearnedPositionEmbedding`.
        TypeError: If positions are floats.

    Source:
        Liu et al., "Swin Transformer", arXiv 2103.14030, section 3.2; Bao et al., "BEiT", arXiv 2106.08254.

    >>> windows = keras.ops.zeros((8, 7 * 7, 3, 32))
    >>> tuple(GridPositionBias(3, (7, 7))(windows).shape)  # heads, queries, keys
    (1, 3, 49, 49)
    """

    def __init__(
        self,
        num_heads: int,
        grid_shape: Sequence[int],
        *,
        class_tokens: int = 0,
        initializer: Any = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads=num_heads, grid_shape=grid_shape, class_tokens=class_tokens, **kwargs)
        self.initializer = keras.initializers.get(initializer)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "class_tokens": self.class_tokens,
            "initializer": keras.initializers.serialize(self.initializer),
        }

    def build(self, queries_shape: Shape) -> None:
        self._table = self.add_weight(
            name="embeddings", shape=(self._count, self.num_heads), initializer=self.initializer, autocast=False
        )

    def _rows(self) -> Any:
        return ops.convert_to_tensor(self._table)
