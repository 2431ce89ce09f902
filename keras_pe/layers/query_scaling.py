"""Query scaling: a factor that grows with the logarithm of the position, as in Llama 4, Ministral 3 and Qwen."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.axis_positions import Positions
from keras_pe.layers.base import check_count
from keras_pe.layers.head_axes import HeadAxes
from keras_pe.rotations.static_values import count_up, quotients
from keras_pe.signal.formula import check_number
from keras_pe.signal.layouts import is_integer


class QueryScaling(NamedTuple):
    """The factor `1 + scale * log(growth)` of a position, where `growth` is `(position + first_position) / length`.

    A growth below 1 counts as 1.

    Attributes:
        scale: Weight of the logarithm.
        length: Number of positions; up to that length the factor is 1.
        first_position: Number of the first position: 0, or 1 in models that count from 1.
        stepwise: Whether the growth is `1 + floor((position + first_position) / length)` instead.
    """

    scale: float
    length: int
    first_position: int = 0
    stepwise: bool = True

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> "QueryScaling":
        """Returns the scaling that a layer is configured with, or raises."""
        if not isinstance(given, Mapping) or not {"scale", "length"} <= set(given) <= set(cls._fields):
            raise ArgValueError(
                "query_scaling",
                "must be a dictionary with 'scale' and 'length', and may have 'first_position' and "
                f"'stepwise'. Received: query_scaling={given!r}.",
            )
        first, stepwise = given.get("first_position", 0), given.get("stepwise", True)
        if not is_integer(first) or first not in (0, 1) or not isinstance(stepwise, bool):
            raise ArgValueError(
                "query_scaling",
                "must have 0 or 1 as 'first_position', and True or False as 'stepwise'. "
                f"Received: query_scaling={given!r}.",
            )
        scale = float(check_number("scale", given["scale"]))
        return cls(scale, check_count("length", given["length"]), int(first), stepwise)

    def arguments(self) -> dict[str, Any]:
        """Returns the dictionary that makes this scaling."""
        return dict(zip(self._fields, self, strict=True))

    def factors(self, given: tuple[Any, Positions | None], head: HeadAxes, shape: tuple[Any, ...], dtype: str) -> Any:
        """Returns the factors of queries of this shape, which broadcast to them once their channels are last.

        Args:
            given: Length and positions of the only axis.
            head: The axes of the queries.
            shape: Shape of the queries.
            dtype: Dtype of the factors.
        """
        growth = self._growth(*given, dtype)
        factors = 1.0 + self.scale * ops.log(ops.maximum(growth, 1.0))
        return head.laid_along([ops.expand_dims(factors, -1)], shape)

    def _growth(self, length: Any, positions: Positions | None, dtype: str) -> Any:
        """Returns the growth at each position, `(length,)` or `(batch, length)`."""
        whole = _whole(length, positions)
        if self.stepwise:
            # A float quotient may round up to the next step. Negative positions have the factor of position 0.
            return 1.0 + ops.cast(quotients(ops.maximum(whole + self.first_position, 0), self.length), dtype)
        where = ops.cast(whole, dtype)
        if positions is not None and positions.fraction is not None:
            where = positions.cast(dtype)
        return (where + self.first_position) * (1.0 / self.length)


def _whole(length: Any, positions: Positions | None) -> Any:
    """Returns the largest integers up to the positions, int32."""
    if positions is None:
        return count_up(length)
    return positions.start + count_up(length) if positions.whole is None else positions.whole
