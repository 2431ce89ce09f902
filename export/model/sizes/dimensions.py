"""Dynamic dimensions: their kinds, names and valid sizes, and joint choices of sizes."""

import enum
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.model.watch.nested_arguments import Shape, StaticShape, sized_shape

BUFFER, SPARE = "max_sequence_length", "spare_sequence_length"
"""The length of a shared cache, and the number of its rows after the rows of a call, which hold no numbers."""
LARGE_SIDE = 1024  # two sides of this size are a large image; memory may not hold the activations of a larger image


def checked_sizes(sizes: Mapping[str, int | Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    """Returns the caller's sizes of each dimension as tuples.

    Raises:
        ValueError: If a dimension has no size, or a size is not a whole number from 1.
    """
    found = {name: tuple(own) if isinstance(own, Iterable) else (own,) for name, own in (sizes or {}).items()}
    for name, own in found.items():
        if not own or not all(isinstance(size, Integral) and size >= 1 for size in own):
            received = ", ".join(map(repr, own)) or "none"
            raise ArgValueError(
                "sizes", f"must be whole numbers from 1, one or several. Received: {received} of {name!r}."
            )
    return found


@dataclass(frozen=True)
class SizeRange:
    """The valid sizes of one dimension: `least`, `least + step`, and so on; or the caller's sizes.

    Attributes:
        least: The least size.
        step: The difference of neighboring sizes; 0 if the least size is the only one.
        most: The largest size; None if no largest size is known.
        given: The caller's sizes, which replace all others.
    """

    least: int = 1
    step: int = 1
    most: int | None = None
    given: tuple[int, ...] = ()

    def near(self, size: int) -> int:
        """Returns the least size of the range that is at least `size`, or the last size of the range."""
        if self.given:
            return next((own for own in sorted(self.given) if own >= size), max(self.given))
        if not self.step:
            return self.least
        steps = max(0, -(-(size - self.least) // self.step))
        if self.most is not None:
            steps = min(steps, (self.most - self.least) // self.step)
        return self.least + steps * self.step

    def nth(self, count: int) -> int:
        """Returns the size with this number, counted from the least one; a size near `count` if that is too large."""
        if self.given:
            return sorted(self.given)[(count - 1) % len(self.given)]
        size = self.least + (count - 1) * self.step
        return self.near(size if size <= LARGE_SIDE else max(count, self.least))

    def other(self, size: int) -> int | None:
        """Returns another size of the range that is next to `size`; None if there is no other size."""
        return next((own for own in (self.near(size + 1), self.near(1)) if own != size), None)

    def with_end(self, end: str, size: int) -> "SizeRange":
        """Returns the range with another end, "least" or "most"."""
        return replace(self, least=size) if end == "least" else replace(self, most=size)

    def __contains__(self, size: int) -> bool:
        return self.near(size) == size

    def __str__(self) -> str:
        if self.given:
            return f"{', '.join(map(str, self.given))} (given)"
        if not self.step or self.least == self.most:
            return f"{self.least} only"
        ends = f"from {self.least}" if self.most is None else f"from {self.least} to {self.most}"
        if self.step == 1:
            return "any" if ends == "from 1" else ends
        kind = "multiples" if self.least % self.step == 0 else f"{self.least % self.step} more than multiples"
        return f"{kind} of {self.step}, {ends}"


class Kind(enum.StrEnum):
    """The kind of a dynamic dimension. The value is the name of the first dimension of the kind."""

    BATCH = "batch"
    LENGTH = "length"
    HEIGHT = "height"
    WIDTH = "width"

    @classmethod
    def from_prefix(cls, name: str) -> "Kind | None":
        """Returns the kind that a name begins with; None without one."""
        return next((kind for kind in cls if name.startswith(kind)), None)

    @classmethod
    def from_axis(cls, shape: Sequence[int | str | None], axis: int) -> "Kind":
        """Returns the kind of an unnamed axis other than the batch."""
        kinds = _OF_AXES.get(len(shape), (cls.LENGTH,) * len(shape))
        is_channels_first = len(shape) in _OF_AXES and not isinstance(shape[-1], int) and isinstance(shape[1], int)
        return kinds[axis - 1] if is_channels_first else kinds[axis]

    @classmethod
    def from_name(cls, name: str, shapes: Iterable[Sequence[int | str | None]]) -> "Kind":
        """Returns the kind of a dimension that the caller or another exporter has named.

        A dimension that occurs after the first axis is not a batch, even if a file calls every dimension "?". Otherwise
        the name decides. Without a known name, the first axis of several is a batch, and any other axis is a length.
        """
        prefix = cls.from_prefix(name)
        own = [shape for shape in shapes if name in shape]
        if any(name in shape[1:] for shape in own):
            return cls.LENGTH if prefix in (None, cls.BATCH) else prefix
        return prefix or (cls.BATCH if any(len(shape) > 1 for shape in own) else cls.LENGTH)


_OF_AXES = {
    4: (Kind.LENGTH, Kind.HEIGHT, Kind.WIDTH, Kind.LENGTH),
    5: (Kind.LENGTH, Kind.LENGTH, Kind.HEIGHT, Kind.WIDTH, Kind.LENGTH),
}


@dataclass(frozen=True)
class Dimension:
    """A dynamic dimension of a model's inputs.

    Attributes:
        kind: The kind of the dimension.
        name: The name of the dimension: the caller's, or else one that follows from the kind.
        sizes: The valid sizes.
        parts: The dimensions whose sizes add up to the size of this one; empty if the size is independent.
    """

    kind: Kind
    name: str
    sizes: SizeRange = field(default_factory=SizeRange)
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedShapes:
    """The shapes of a model's inputs.

    Attributes:
        shapes: The shape of each input, with a name for each dynamic dimension.
        dimensions: The dynamic dimensions, by name.
    """

    shapes: list[tuple[int | str, ...]]
    dimensions: dict[str, Dimension]

    def sized_shapes(self, sizes: Mapping[str, int]) -> list[Any]:
        """Returns the shapes with sizes in place of their names."""
        return [sized_shape(shape, sizes) for shape in self.shapes]

    def sizes_in(self, shapes: Sequence[StaticShape]) -> dict[str, int] | None:
        """Returns the size of each name in static shapes; None if the shapes contradict the names or fixed sizes."""
        sizes: dict[str, int] = {}
        for own, shape in zip(self.shapes, shapes, strict=True):
            for dim, size in zip(own, shape, strict=True):
                if (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) != size:
                    return None
        return sizes


def named_sizes(
    shapes: Iterable[Sequence[int | str]], others: Iterable[Sequence[int | None]]
) -> Iterator[tuple[str, int]]:
    """Yields the name and the size of each dynamic axis of shapes in others, except for shapes of another rank."""
    for shape, other in zip(shapes, others, strict=False):
        if len(shape) == len(other):
            pairs = zip(shape, other, strict=True)
            yield from ((dim, size) for dim, size in pairs if isinstance(dim, str) and size is not None)


def name_axes(shapes: Sequence[Shape]) -> list[tuple[int | str, ...]]:
    """Returns the shapes with a separate name for each unnamed dynamic axis: `batch`, `length`, `length_2`, ...

    A caller may pass the size of an axis by this name. All batches share one name.
    """
    counts = Counter[Kind]()

    def axis_name(shape: Shape, axis: int) -> int | str:
        dim = shape[axis]
        kind = Kind.from_axis(shape, axis) if axis else Kind.BATCH
        counts[kind] += dim is None and bool(axis)
        return dim or (f"{kind}_{counts[kind]}" if counts[kind] > 1 else kind.value)

    return [tuple(axis_name(shape, axis) for axis in range(len(shape))) for shape in shapes]


def all_dimensions(shapes: Iterable[Sequence[int | str]], known: Mapping[str, Dimension]) -> dict[str, Dimension]:
    """Returns the dynamic dimensions of inputs by name, in order, and after them those that a size is the sum of.

    Args:
        shapes: The shapes of the inputs.
        known: The known dimensions, by name.
    """
    shapes = [*shapes]
    names = dict.fromkeys(dim for shape in shapes for dim in shape if isinstance(dim, str))
    names |= dict.fromkeys(part for name in [*names] if name in known for part in known[name].parts)
    return {name: known.get(name) or Dimension(Kind.from_name(name, shapes), name) for name in names}


def spread(dimensions: Mapping[str, Dimension], batch: int, start: int, factor: int = 1) -> dict[str, int]:
    """Returns a size for each dimension, all different as far as their ranges allow.

    Args:
        dimensions: The dimensions, by name.
        batch: The wanted size of a batch.
        start: The wanted size of the first other dimension. The next sizes are slightly larger.
        factor: The least ratio of a size to the least size of its range, except for batches.
    """
    wanted: dict[str, int] = {}
    length = start
    for name, own in dimensions.items():
        is_batch = own.kind is Kind.BATCH
        wanted[name] = batch if is_batch else max(length, own.sizes.least * factor)
        length += 0 if is_batch else 2
    return fit_sizes(dimensions, wanted)


def fit_sizes(dimensions: Mapping[str, Dimension], wanted: Mapping[str, int]) -> dict[str, int]:
    """Returns valid sizes near the wanted ones. The sizes differ from each other as far as the ranges allow."""
    sizes: dict[str, int] = {}
    for name, own in dimensions.items():
        size = own.sizes.near(wanted[name])
        while size in sizes.values() and own.sizes.near(size + 1) > size:
            size = own.sizes.near(size + 1)
        sizes[name] = size
    return add_parts(dimensions, sizes)


def add_parts(dimensions: Mapping[str, Dimension], sizes: Mapping[str, int]) -> dict[str, int]:
    """Returns the sizes, with the sum of its parts as the size of each dimension that has parts."""
    sums = {name: sum(sizes[part] for part in own.parts) for name, own in dimensions.items() if own.parts}
    return {**sizes, **sums}


def sizes_from_counts(dimensions: Mapping[str, Dimension], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the size of each dimension by its count, see `SizeRange.nth`. The sizes differ if the ranges allow."""
    return fit_sizes(dimensions, {name: own.sizes.nth(counts[name]) for name, own in dimensions.items()})


def dimensions_to_json(dimensions: Mapping[str, Dimension]) -> str:
    """Returns the record of the dimensions for the metadata of an artifact."""
    return json.dumps(
        {
            name: {"kind": own.kind, **asdict(own.sizes), **({"parts": own.parts} if own.parts else {})}
            for name, own in dimensions.items()
        }
    )


def dimensions_from_json(text: str) -> dict[str, Dimension]:
    """Returns the dimensions that `dimensions_to_json` wrote.

    Raises:
        ValueError: If the text is something else.
    """
    return read_record(text, _dimensions, "sizes")


def _dimensions(content: Any) -> dict[str, Dimension]:
    dimensions = {}
    for name, own in content.items():
        most = None if own["most"] is None else int(own["most"])
        sizes = SizeRange(int(own["least"]), int(own["step"]), most, tuple(map(int, own["given"])))
        dimensions[name] = Dimension(Kind(own["kind"]), name, sizes, tuple(map(str, own.get("parts", ()))))
    return dimensions


def sizes_in_words(sizes: Mapping[str, int]) -> str:
    """Returns sizes as a part of a sentence: "batch 2, length 7". A name without a letter, such as "-1", is quoted."""
    names = {name: name if any(map(str.isalpha, name)) else repr(name) for name in sizes}
    return ", ".join(f"{names[name]} {size}" for name, size in sizes.items())


def describe_dimensions(dimensions: Mapping[str, Dimension]) -> list[str]:
    """Returns the valid sizes of the dimensions in words: "height, width: multiples of 4, from 32"."""
    names: dict[str, list[str]] = {}
    for name, own in dimensions.items():
        names.setdefault(str(own.sizes), []).append(name)
    return [f"{', '.join(same)}: {sizes}" for sizes, same in names.items()]
