"""The axes of positions and channels in queries and keys, and broadcasts along them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.layers.call_arguments import Shape
from keras_pe.signal.layouts import is_integer


class HeadAxes(NamedTuple):
    """The axes of positions and that of channels; the batch is the first of all.

    Attributes:
        sequence: One, or one for each axis of an image.
        feature: May count from the end.
    """

    sequence: tuple[int, ...]
    feature: int

    @classmethod
    def checked(cls, sequence: int | Sequence[int], feature: int) -> "HeadAxes":
        """Returns the axes that a layer is configured with, or raises."""
        axes = tuple(sequence) if isinstance(sequence, Sequence) else (sequence,)
        for each in axes:
            if not is_integer(each) or each < 1:
                raise ArgValueError(
                    "sequence_axis", f"must be 1 or more, after the batch. Received: sequence_axis={each!r}."
                )
        if not axes or not is_integer(feature):
            raise ArgValueError(
                "sequence_axis",
                "must name an axis or several, and `feature_axis` one. "
                f"Received: sequence_axis={sequence!r}, feature_axis={feature!r}.",
            )
        return cls(tuple(map(int, axes)), int(feature))

    def check(self, shape: Shape) -> None:
        """Raises unless queries of this shape have these axes."""
        rank = len(shape)
        features = self.feature % rank if -rank <= self.feature < rank else 0
        places = [each % rank if each < rank else 0 for each in self.sequence]
        if not features or 0 in places or len({features, *places}) <= len(places) or not shape[features]:
            raise ArgValueError(
                "queries",
                f"must have the axes {list(self.sequence)} of positions and {self.feature} of known channels "
                f"after the batch. Received: queries.shape={tuple(shape)}.",
            )

    def check_keys(self, queries: Any, keys: Any) -> None:
        """Raises unless keys are as long and as wide as the queries."""
        if not hasattr(keys, "shape"):
            raise ArgTypeError("keys", f"must be an array or a tensor. Received: a {type(keys).__name__}.")
        axes = [self.feature, *self.sequence]
        sizes = [[x.shape[axis] for axis in axes] for x in (queries, keys) if len(x.shape) == len(queries.shape)]
        if len(sizes) < 2 or any(None not in pair and pair[0] != pair[1] for pair in zip(*sizes, strict=True)):
            raise ArgValueError(
                "keys",
                "must have the positions and the channels of `queries`; other positions are another call. "
                f"Received: queries.shape={tuple(queries.shape)}, keys.shape={tuple(keys.shape)}.",
            )

    def laid_along(self, parts: list[Any], shape: tuple[Any, ...]) -> Any:
        """Returns the columns of all axes together, as inputs of this shape take them once their channels are last.

        Args:
            parts: `(length, columns)` or `(batch, length, columns)` for each axis.
            shape: Shape of the inputs.
        """
        rank, places = len(shape), self._places(len(shape))
        if len(parts) == 1 and len(parts[0].shape) == 2:  # the axes before that of the positions need not be there
            return _with_axes(parts[0], range(1, rank - 1 - places[0]))
        placed = [
            _with_axes(each, [axis for axis in range(len(each.shape) - 2, rank - 1) if axis != place])
            for each, place in zip(parts, places if len(places) > 1 else places * len(parts), strict=True)
        ]
        if len(parts) == 1:
            return placed[0]
        sizes = [size for axis, size in enumerate(shape) if axis != self.feature % rank]
        whole = [size if axis in places else 1 for axis, size in enumerate(sizes)]
        whole[0] = 1 if all(each.shape[0] == 1 for each in placed) else sizes[0]
        return ops.concatenate([ops.broadcast_to(each, (*whole, each.shape[-1])) for each in placed], axis=-1)

    def channels_last(self, x: Any) -> Any:
        """Returns inputs with their channels last."""
        return x if self._has_channels_last(x) else ops.moveaxis(x, *self._ends(x))

    def channels_back(self, x: Any) -> Any:
        """Returns what has its channels last as inputs have them."""
        return x if self._has_channels_last(x) else ops.moveaxis(x, *reversed(self._ends(x)))

    def _ends(self, x: Any) -> tuple[int, int]:
        """Returns the axis of the channels and the last one: PyTorch's exporter to ONNX writes a -1 into its file."""
        rank = len(x.shape)
        return self.feature % rank, rank - 1

    def _has_channels_last(self, x: Any) -> bool:
        return self.feature in (-1, len(x.shape) - 1)

    def _places(self, rank: int) -> list[int]:
        """Returns where the axes of positions are once the channels are the last."""
        return [each % rank - (each % rank > self.feature % rank) for each in self.sequence]


def _with_axes(signal: Any, axes: Sequence[int]) -> Any:
    """Returns a signal with axes of size 1 where it lacks them."""
    return ops.expand_dims(signal, tuple(axes)) if axes else signal
