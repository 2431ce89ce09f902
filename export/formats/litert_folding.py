"""Stand-ins for the tensors of more than four axes: the same values in a shape with merged axes."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from math import prod
from typing import Any

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.formats.litert_targets import MOST_AXES

Shape = tuple[int, ...]


class Folded:
    """The operators of a subgraph, with stand-ins for the tensors of more than four axes."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self._stand_ins: dict[int, int] = {}

    def keep(self, operator: Any) -> None:
        """Appends an operator as it is."""
        for number in {int(each) for each in operator.inputs} & self._stand_ins.keys():
            self.editor.reshape(self._stand_ins.pop(number), self.editor.shape(number), number)
        self.editor.operators.append(operator)

    def read(self, number: int, shape: Shape) -> int:
        """Returns a tensor with the values of another in a shape."""
        return self.editor.reshape(self._stand_ins.get(number, number), shape)

    def apply(self, operator: Any, inputs: Sequence[int], shapes: Iterable[Shape], **options: Any) -> bool:
        """Appends a copy of an operator that computes its outputs in other shapes. Returns True.

        Args:
            operator: The operator.
            inputs: The new inputs.
            shapes: The new shape of each output.
            **options: The fields of the options that change.
        """
        outputs = list(zip(map(int, operator.outputs), shapes, strict=True))
        results = [self.result(*each) for each in outputs]
        self.editor.add_like(operator, inputs, results, **options)
        for (number, _), result in zip(outputs, results, strict=True):
            self.replace(number, result)
        return True

    def result(self, number: int, shape: Shape) -> int:
        """Returns the tensor that receives the values of another in a shape."""
        return number if self.editor.shape(number) == shape else self.editor.tensor(shape, number)

    def replace(self, number: int, result: int) -> None:
        """Makes a tensor the stand-in of another if that has too many axes, and otherwise writes the other."""
        if result != number and (len(self.editor.shape(number)) <= MOST_AXES or self.editor.is_output(number)):
            self.editor.reshape(result, self.editor.shape(number), number)
        elif result != number:
            self._stand_ins[number] = result

    def copy(self, number: int, output: int) -> bool:
        """Gives a tensor the values of another. Returns True."""
        shape = self.editor.shape(output)
        few = (prod(shape[: 1 - MOST_AXES]), *shape[1 - MOST_AXES :]) if len(shape) > MOST_AXES else shape
        self.replace(output, self.editor.reshape(self._stand_ins.get(number, number), few, self.result(output, few)))
        return True


def merge(shapes: Sequence[Shape], marks: Sequence[Any]) -> list[Shape] | None:
    """Returns shapes with the adjacent axes of equal marks merged; None if more than four axes remain.

    Args:
        shapes: Shapes of one rank.
        marks: A mark for each axis. An axis of size 1 in all shapes joins its neighbor.
    """
    axes = [each for each in zip(zip(*shapes, strict=True), marks, strict=True) if {*each[0]} != {1}]
    groups = [[sizes for sizes, _ in group] for _, group in groupby(axes, key=lambda each: each[1])]
    merged = [tuple(map(prod, zip(*group, strict=True))) for group in groups]
    if len(merged) > MOST_AXES:
        return None
    return [tuple(shape) for shape in zip(*merged, strict=True)] or [(1,) for _ in shapes]
