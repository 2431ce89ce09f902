"""Resizes trained tables of a grid for another grid, as vision transformers do for another image size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.signal.formula import Float64Array
from keras_pe.signal.layouts import is_integer

Interpolation = Literal["bicubic", "bilinear"]

_STEPS = 1_000  # denominator of an offset: those of rational places stay small enough for int32


class Places(NamedTuple):
    """The places of a new axis, measured along the old one: `numerators / denominator - 1`, whole numbers all.

    Attributes:
        numerators: `(new size,)`, at least 0.
        denominator: At least 1.
        step: Distance of two neighboring places, times the denominator.
    """

    numerators: Any
    denominator: Any
    step: Any


@dataclass(frozen=True)
class Resizing:
    """The rule by which `torch.nn.functional.interpolate` resizes an axis, as one matrix for each axis.

    The rule is the same for NumPy and for a graph that receives the new size at run time. Places are whole numbers over
    a whole denominator, so a place is never rounded to the wrong side of a row.

    Attributes:
        interpolation: "bicubic" or "bilinear"; along a single axis cubic or linear.
        antialias: Whether the kernel widens with the step if the axis shrinks.
        align_corners: Whether the first and the last row keep their places.
        scale_offset: Added to the new size before the step is computed.
    """

    interpolation: Interpolation = "bicubic"
    antialias: bool = False
    align_corners: bool = False
    scale_offset: float = 0.0

    @classmethod
    def checked(cls, *given: Any) -> "Resizing":
        """Returns the rule, or raises ValueError if an argument is not valid."""
        rule = cls(*given)
        if rule.interpolation not in get_args(Interpolation):
            choices = ", ".join(map(repr, get_args(Interpolation)))
            raise ArgValueError("interpolation", f"must be one of {choices}. Received: {rule.interpolation!r}.")
        offset = rule.scale_offset
        is_number = isinstance(offset, (int, float, np.integer, np.floating)) and not isinstance(offset, bool)
        if not is_number or not 0 <= offset < 1 or abs(offset * _STEPS - round(offset * _STEPS)) > 1e-6:
            raise ArgValueError(
                "scale_offset",
                f"must be a multiple of 0.001 from 0 to 0.999, 0.1 in DINO. Received: scale_offset={offset!r}.",
            )
        if offset and rule.align_corners:
            raise ArgValueError(
                "scale_offset",
                f"must be 0 with `align_corners`, where the two sizes alone decide. Received: scale_offset={offset!r}.",
            )
        return cls(rule.interpolation, bool(rule.antialias), bool(rule.align_corners), float(offset))

    @property
    def is_interpolating(self) -> bool:
        """Whether the rule is plain bicubic: the only one whose offset moves an axis that keeps its size."""
        return self.interpolation == "bicubic" and not self.antialias

    @property
    def denominator_of_offset(self) -> int:
        """The denominator of the offset as a fraction."""
        return self._offset.denominator

    @property
    def _offset(self) -> Fraction:
        return Fraction(self.scale_offset).limit_denominator(_STEPS)

    def places(self, size: int, new_size: Any, index: Any, is_kept: Any, xp: ModuleType = np) -> Places:
        """Returns where the rows of the new axis lie.

        Args:
            size: Number of old rows.
            new_size: Number of new rows: an int, or an int32 scalar tensor.
            index: `0, ..., new_size - 1`, integers.
            is_kept: 1 if the offset is left out because nothing changes its size, 0 if not.
            xp: NumPy, or `keras.ops`.
        """
        if self.align_corners:
            steps = _larger(new_size - 1, 1, xp)
            step = (size - 1) * (1 - _larger(2 - new_size, 0, xp))  # a single place has no step
            half = 1 if self.antialias else 0
            return Places((2 * index + half) * step + (2 - half) * steps, 2 * steps, 2 * step)
        offset = self._offset
        total = offset.denominator * new_size + offset.numerator * (1 - is_kept)
        step = size * offset.denominator
        return Places((2 * index + 1) * step + total, 2 * total, 2 * step)

    def weights(self, whole: Any, fraction: Any, step: Any, rows: Any, xp: ModuleType = np) -> Any:
        """Returns the share of each old row in each new one: `(new size, size)`, the sum of each row 1.

        Args:
            whole: `(new size, 1)`, the largest whole numbers up to the places, as floats.
            fraction: `(new size, 1)`, from 0 to 1.
            step: Distance of two neighboring places.
            rows: `0, ..., size - 1` as floats, `(1, size)`.
            xp: NumPy, or `keras.ops`.
        """
        if self.antialias:
            shares = self._kernel((whole - rows + fraction) / _larger(step, 1.0, xp), xp)
            return shares / xp.sum(shares, axis=1, keepdims=True)
        reach, last, total = 2 if self.interpolation == "bicubic" else 1, rows.shape[1] - 1, 0.0
        for tap in range(1 - reach, reach + 1):
            nearest = xp.clip(whole + tap, 0.0, float(last))  # past the border the row of the border counts
            total = total + xp.where(xp.equal(rows, nearest), self._kernel(fraction - tap, xp), 0.0)
        return total

    def _kernel(self, distances: Any, xp: ModuleType) -> Any:
        far = xp.abs(distances)
        if self.interpolation == "bilinear":
            return xp.maximum(1.0 - far, 0.0)
        a = -0.5 if self.antialias else -0.75
        near = ((a + 2.0) * far - (a + 3.0)) * far * far + 1.0
        beyond = ((far - 5.0) * far + 8.0) * far * a - 4.0 * a
        return xp.where(far <= 1.0, near, xp.where(far < 2.0, beyond, 0.0))

    def matrix(self, size: int, new_size: int) -> Float64Array:
        """Returns the matrix that resizes an axis of a grid whose shape changes: `(new_size, size)`.

        Args:
            size: Number of old rows.
            new_size: Number of new rows.
        """
        is_kept = int(size == new_size and not self.is_interpolating)
        numerators, denominator, step = self.places(size, new_size, np.arange(new_size), is_kept)
        whole, rest = np.divmod(numerators[:, np.newaxis], denominator)
        weights: Float64Array = self.weights(
            whole - 1.0, rest / denominator, step / denominator, np.arange(size, dtype=np.float64)[np.newaxis]
        )
        return weights


def resize_position_table(
    table: npt.ArrayLike,
    grid_shape: Sequence[int],
    new_grid_shape: Sequence[int],
    *,
    class_tokens: int = 0,
    interpolation: Interpolation = "bicubic",
    antialias: bool = False,
    align_corners: bool = False,
    scale_offset: float = 0.0,
) -> npt.NDArray[Any]:
    """Returns a trained position table of a grid, resized for a grid of another shape.

    Each axis is multiplied by one matrix, computed in float64. The numbers are those of
    `torch.nn.functional.interpolate`: cubic weights have `a = -0.75`, or `a = -0.5` with `antialias`.

    Args:
        table: `(..., class_tokens + cells, channels)`, the cells of the grid row after row.
        grid_shape: Sizes of the trained grid, such as `(14, 14)`: rows and columns of patches; any number of axes.
        new_grid_shape: Sizes of the new grid, for equally many axes.
        class_tokens: Number of rows before those of the grid, for class or distillation tokens. They are unchanged.
        interpolation: "bicubic" or "bilinear".
        antialias: Whether the weights widen if the grid shrinks.
        align_corners: Whether the corners of both grids coincide, instead of the edges of their first and last cells.
        scale_offset: Added to the new sizes before they are divided by the old ones: 0.1 in DINO, DINOv2's
            `interpolate_offset`. The grid keeps its new shape.

    Returns:
        `(..., class_tokens + new cells, channels)`, of the table's dtype. If the shape is the same, the numbers are
        unchanged.

    Raises:
        ValueError: If shapes do not agree, or an argument is not valid.
        TypeError: If the values of the table are not real floats.

    Source:
        PyTorch 2.13, `torch.nn.functional.interpolate`; how DINO, DINOv2, MAE, DeiT, timm and transformers call it.

    >>> table = np.random.default_rng(0).normal(size=(1, 1 + 14 * 14, 8))
    >>> resize_position_table(table, (14, 14), (16, 24), class_tokens=1).shape
    (1, 385, 8)
    """
    rule = Resizing.checked(interpolation, antialias, align_corners, scale_offset)
    grid, new_grid = check_grid_shape(grid_shape), check_grid_shape(new_grid_shape, "new_grid_shape")
    if len(grid) != len(new_grid):
        raise ArgValueError(
            "new_grid_shape",
            f"must have one size for each of the {len(grid)} axes of `grid_shape`. Received: {new_grid_shape=}.",
        )
    if not is_integer(class_tokens) or class_tokens < 0:
        raise ArgValueError("class_tokens", f"must be a whole number of at least 0. Received: {class_tokens=!r}.")
    values, rows = np.asarray(table), class_tokens + math.prod(grid)
    if values.dtype.kind not in "fV" or values.dtype.names:  # NumPy calls bfloat16 void
        raise ArgTypeError("table", f"must be real floats. Received: an array of dtype {values.dtype}.")
    if values.ndim < 2 or values.shape[-2] != rows:
        raise ArgValueError(
            "table",
            f"must have shape (..., {rows}, channels) for {class_tokens} class tokens and a grid of shape "
            f"{grid}. Received: table.shape={values.shape}. table.reshape flattens a grid of rows.",
        )
    if grid == new_grid:
        return values.copy()
    matrices = [rule.matrix(size, new_size) for size, new_size in zip(grid, new_grid, strict=True)]
    places = _resize(values[..., class_tokens:, :].astype(np.float64), grid, matrices).astype(values.dtype)
    return np.concatenate([values[..., :class_tokens, :], places], axis=-2)


def _resize(places: Float64Array, grid: tuple[int, ...], matrices: list[Float64Array]) -> Float64Array:
    *leading, _, channels = places.shape
    found = places.reshape(*leading, *grid, channels)
    for axis, matrix in enumerate(matrices, start=len(leading)):
        found = np.moveaxis(np.tensordot(matrix, found, (1, axis)), 0, axis)
    return found.reshape(*leading, -1, channels)


def check_grid_shape(value: Any, name: str = "grid_shape") -> tuple[int, ...]:
    """Returns the sizes of a grid as a tuple, or raises ValueError unless they are positive integers."""
    sizes = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if not sizes or not all(is_integer(size) and size > 0 for size in sizes):
        raise ArgValueError(name, f"must be positive integers, one per axis. Received: {name}={value!r}.")
    return tuple(int(size) for size in sizes)


def _larger(value: Any, least: float, xp: ModuleType) -> Any:
    """Returns the larger of two numbers, the first of which may be a tensor."""
    return max(value, least) if isinstance(value, (int, float)) else xp.maximum(value, least)
