"""The fixed sizes of an artifact: sizes of dynamic dimensions, their origins, and their record in the artifact."""

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.model.sizes.dimensions import Kind, checked_sizes, sizes_in_words
from keras_pe.export.model.watch.nested_arguments import Shape, shapes_fit


class Origin(enum.StrEnum):
    """The origin of a fixed size."""

    GIVEN = "given"
    EXAMPLE = "example"
    CALLED = "called"
    LEAST = "least"
    FIRST = "first"
    ONLY = "only"


_PHRASES = {
    Origin.GIVEN: "the size that was given",
    Origin.EXAMPLE: "the size of the examples",
    Origin.CALLED: "the size that the model was called with",
    Origin.LEAST: "the least size that the model takes",
    Origin.FIRST: "the first size that the model was found to take",
    Origin.ONLY: "the only size that the model was found to take",
}


@dataclass(frozen=True)
class FixedSize:
    """The fixed size of one dimension.

    Attributes:
        name: The name of the dimension.
        size: The size.
        origin: The origin of the size.
    """

    name: str
    size: int
    origin: Origin

    def __str__(self) -> str:
        return f"{sizes_in_words({self.name: self.size})} only, {_PHRASES[self.origin]}"


@dataclass(frozen=True)
class FixedSizes:
    """The fixed sizes of an artifact whose model declares dynamic dimensions.

    Attributes:
        sizes: One size for each fixed dimension.
        shapes: The shape of each input by name, with the fixed sizes and the names of the other dynamic dimensions.
        cause: The reason why the sizes cannot be free, in one sentence; empty if the model accepts no other size.
    """

    sizes: tuple[FixedSize, ...]
    shapes: tuple[tuple[str, Shape], ...] = ()
    cause: str = ""

    @property
    def by_name(self) -> dict[str, int]:
        """The sizes by the names of their dimensions."""
        return {each.name: each.size for each in self.sizes}

    def __str__(self) -> str:
        """Returns the note for the artifact."""
        message = f"The artifact takes {'; '.join(map(str, self.sizes))}."
        return f"{message} With a free size {self.cause}" if self.cause else message

    def with_inputs(self, inputs: Iterable[TensorInfo]) -> "FixedSizes":
        """Returns a copy with the shapes of these inputs."""
        return replace(self, shapes=tuple((spec.name, spec.shape) for spec in inputs))

    def shape_of(self, name: str, shape: Shape) -> Shape:
        """Returns the shape of an input, with its dynamic dimensions replaced by the recorded sizes and names.

        A shape that contradicts the recorded sizes or rank is returned unchanged.
        """
        own = dict(self.shapes).get(name, ())
        if not shapes_fit(own, shape):
            return shape
        return tuple(other if isinstance(other, int) else one for one, other in zip(own, shape, strict=True))

    def fits(self, shapes: Mapping[str, Shape]) -> bool:
        """Returns whether shapes of inputs, by name, do not contradict the fixed sizes."""
        return all(name in shapes and shapes_fit(own, shapes[name]) for name, own in self.shapes)

    def without_fixed(self, sizes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
        """Returns the caller's sizes without the dimensions whose only size equals the fixed one."""
        known = {(name, (size,)) for name, size in self.by_name.items()}
        return {name: own for name, own in sizes.items() if (name, checked_sizes({name: own})[name]) not in known}

    def to_json(self) -> str:
        """Returns the record for the metadata of the artifact."""
        sizes = {each.name: {"size": each.size, "origin": each.origin} for each in self.sizes}
        return json.dumps({"sizes": sizes, "inputs": dict(self.shapes), "cause": self.cause})


def fixed_between(free: Sequence[Shape], shapes: Sequence[Shape], origin: Origin) -> list[FixedSize]:
    """Returns the fixed sizes of shapes. Equal sizes of one kind share a name.

    Args:
        free: The shapes with None for dynamic dimensions.
        shapes: The shapes with sizes in place of some of these.
        origin: The origin of the sizes.
    """
    found: list[FixedSize] = []
    for may_be, shape in zip(free, shapes, strict=True):
        for axis, (dim, size) in enumerate(zip(may_be, shape, strict=True)):
            if dim is None and isinstance(size, int):
                kind = Kind.from_axis(may_be, axis) if axis else Kind.BATCH
                same = [each for each in found if each.name.startswith(kind)]
                if all(each.size != size for each in same):
                    name = f"{kind}_{len(same) + 1}" if same else kind.value
                    found.append(FixedSize(name, size, origin))
    return found


def fixed_as_given(
    names: Sequence[str], shapes: Sequence[Shape], given: Mapping[str, Sequence[int]]
) -> FixedSizes | None:
    """Returns the fixed sizes of dimensions for which the caller passes exactly one size.

    Args:
        names: The names of the inputs.
        shapes: The shapes of the inputs.
        given: The caller's sizes of each dimension, by name. An unnamed axis has the name of its kind.

    Returns:
        The fixed sizes; None if the caller passes no such size.
    """
    alone = {name: own[0] for name, own in given.items() if len(own) == 1}

    def fix_axes(shape: Shape) -> Shape:
        kinds = (dim or (Kind.from_axis(shape, axis) if axis else Kind.BATCH) for axis, dim in enumerate(shape))
        return tuple(
            alone.get(kind, dim) if isinstance(kind, str) else dim for kind, dim in zip(kinds, shape, strict=True)
        )

    cut = [*map(fix_axes, shapes)]
    found = fixed_between(shapes, cut, Origin.GIVEN)
    return FixedSizes(tuple(found), tuple(zip(names, cut, strict=True))) if found else None


def fixed_sizes_from_json(text: str) -> FixedSizes:
    """Returns the sizes and shapes that `FixedSizes.to_json` wrote.

    Raises:
        ValueError: If the text is not such a record.
    """
    return read_record(text, _fixed_sizes, "fixed sizes")


def _fixed_sizes(content: Any) -> FixedSizes:
    sizes = tuple(
        FixedSize(str(name), int(own["size"]), Origin(own["origin"])) for name, own in content["sizes"].items()
    )
    shapes = tuple((str(name), tuple(shape)) for name, shape in content["inputs"].items())
    if not all(isinstance(dim, int | str) for _, shape in shapes for dim in shape):
        raise TypeError("a shape has an entry that is neither a number nor a name")
    return FixedSizes(sizes, shapes, str(content.get("cause", "")))
