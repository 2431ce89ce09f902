"""Asks a model which sizes it takes, and what it returns for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.messages import first_line
from keras_pe.export.model.dimensions import Dimensions, Shape, StaticShape, find_dimensions, name_outputs
from keras_pe.export.model.nesting import leaves, map_leaves
from keras_pe.export.model.shape_inference import GraphShapes, PartialShape, SymbolicShapes
from keras_pe.export.model.sizes import SizeRange, spread
from keras_pe.export.model.state import state_left_alone

# Lengths at which a model is called, in this order, until it does not raise: kernels and layers may refuse what their
# shapes allow. The second of each pair is what such a length then bounds.
_STARTS = ((11, None), (67, "least"), (257, "least"), (2, "most"))
_START_OF_SOUND = (4099, "least")  # of one length only: two could be those of an image, which memory would not hold
_ROWS = ((5, 67, 3), (7, 211, 7))  # batch, length and multiple of the least length at which outputs are measured

_ROWS_OF_A_BATCH = ((2, 1, 1),)


@dataclass(frozen=True)
class Answer:
    """What a model said.

    Attributes:
        dimensions: The dynamic dimensions of its inputs.
        sizes: Sizes of them at which it was called.
        results: What it returned then.
        outputs: The shapes of its outputs, flat, see `name_outputs`.
    """

    dimensions: Dimensions
    sizes: dict[str, int]
    results: Any
    outputs: list[tuple[int | str, ...]]


class Probe:
    """A model that is asked, its state left alone."""

    def __init__(self, model: Any, structure: Any, inputs: Mapping[str, tuple[Shape, str]]) -> None:
        """Prepares the questions.

        Args:
            model: The Keras model.
            structure: The positional arguments of its call, with names as leaves.
            inputs: The shape and dtype of each name; `None` or a name where a dimension is dynamic.
        """
        self._model, self._structure = model, structure
        self._names = list(inputs)
        self._shapes = [shape for shape, _ in inputs.values()]
        self._dtypes = [dtype for _, dtype in inputs.values()]
        self._inference: GraphShapes | SymbolicShapes | None = None
        self._cause: Exception | None = None

    def ask(self, given: Mapping[str, Sequence[int]]) -> Answer:
        """Returns the names and sizes of the dynamic dimensions, and what the model returns.

        Args:
            given: The sizes that a dimension takes, by its name.

        Raises:
            UnknownSizesError: If the model takes no sizes that were tried; the cause is its own error.
        """
        for apart in (True, False):
            try:
                dimensions = self._dimensions(given, apart)
            except UnknownSizesError:
                break
            called = self._called(dimensions, given)
            if called:
                dimensions, sizes, results = called
                return Answer(dimensions, sizes, results, self._outputs(dimensions, sizes, results))
        raise UnknownSizesError(first_line(self._cause)) from self._cause

    def takes(self, shapes: Sequence[StaticShape]) -> bool:
        """Returns whether the layers take these shapes, as far as shapes tell."""
        try:
            self.infer(shapes)
        except Exception as error:  # whatever the layers raise
            self._cause = self._cause or error
            return False
        return True

    def infer(self, shapes: Sequence[StaticShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs without running the model."""
        if self._inference is None:
            self._inference = self._start()
        return self._inference(shapes)

    def call(self, shapes: Sequence[StaticShape]) -> Any:
        """Returns what the model returns for zeros of these shapes."""
        arrays = [zeros(shape, dtype) for shape, dtype in zip(shapes, self._dtypes, strict=True)]
        with state_left_alone():
            return self._apply(arrays)

    def _apply(self, arrays: Sequence[Any]) -> Any:
        named = dict(zip(self._names, arrays, strict=True))
        return self._model(*map_leaves(self._structure, named.__getitem__), training=False)

    def _start(self) -> GraphShapes | SymbolicShapes:
        import keras

        def flat(arrays: Sequence[Any]) -> list[Any]:
            return [result for _, result in leaves(self._apply(arrays))]

        if keras.backend.backend() == "tensorflow":
            dynamic = [tuple(None if isinstance(dim, str) else dim for dim in shape) for shape in self._shapes]
            variables = list({id(variable): variable for variable in self._model.variables}.values())
            try:
                return GraphShapes(flat, dynamic, self._dtypes, variables)
            except Exception as error:  # a layer may raise anything where a size is not known
                self._cause = error
        return SymbolicShapes(flat, self._dtypes)

    def _dimensions(self, given: Mapping[str, Sequence[int]], apart: bool) -> Dimensions:
        dynamic = [(axis, dim) for shape in self._shapes for axis, dim in enumerate(shape) if not isinstance(dim, int)]
        if dynamic == [(0, None)] and not given:  # any batch will do
            shapes = [("batch", *shape[1:]) if shape and shape[0] is None else shape for shape in self._shapes]
            return Dimensions(shapes, {"batch": SizeRange()})  # type: ignore[arg-type]  # no other is None
        if not dynamic:
            return Dimensions(list(self._shapes), {})  # type: ignore[arg-type]  # none is None
        return find_dimensions(self._shapes, self.takes, given, apart=apart)

    def _called(
        self, dimensions: Dimensions, given: Mapping[str, Sequence[int]]
    ) -> tuple[Dimensions, dict[str, int], Any] | None:
        """Returns sizes at which the model does not raise, and what it returns; the ranges end there if need be."""
        lengths = [name for name in dimensions.ranges if not name.startswith("batch") and name not in given]
        is_sound = sum(dim in lengths for shape in dimensions.shapes for dim in shape) == 1
        for start, bound in (*_STARTS, _START_OF_SOUND) if is_sound else _STARTS if lengths else _STARTS[:1]:
            sizes = spread(dimensions.ranges, 3, start)
            try:
                results = self.call(dimensions.static(sizes))
            except Exception as error:  # whatever the kernels raise
                self._cause = error
                continue
            if bound:
                bounds = {name: dimensions.ranges[name].bounded(bound, sizes[name]) for name in lengths}
                dimensions = replace(dimensions, ranges=dimensions.ranges | bounds)
            return dimensions, sizes, results
        return None

    def _outputs(self, dimensions: Dimensions, sizes: dict[str, int], results: Any) -> list[tuple[int | str, ...]]:
        rows = [(sizes, _shapes_of(results))]
        for batch, start, factor in _ROWS if self._inference else _ROWS_OF_A_BATCH if dimensions.ranges else ():
            more = spread(dimensions.ranges, batch, start, factor)
            try:
                rows.append((more, self._measured(dimensions.static(more))))
            except Exception as error:  # ranges that hold one by one need not hold together
                self._cause = error
        return name_outputs(rows)

    def _measured(self, shapes: Sequence[StaticShape]) -> list[StaticShape]:
        """Returns the shapes of the outputs: what cannot be inferred comes from a call."""
        inferred = self.infer(shapes) if self._inference else [None]
        if all(shape is not None and None not in shape for shape in inferred):
            return inferred  # type: ignore[return-value]  # no size is None
        return _shapes_of(self.call(shapes))


def zeros(shape: StaticShape, dtype: str) -> Any:
    """Returns zeros as tensors of the backend, empty strings where it knows strings."""
    import keras

    if dtype != "string":
        return keras.ops.zeros(shape, dtype)
    texts = np.full(shape, "", object)
    return keras.ops.convert_to_tensor(texts) if keras.backend.backend() == "tensorflow" else texts


def _shapes_of(results: Any) -> list[StaticShape]:
    return [tuple(int(dim) for dim in result.shape) for _, result in leaves(results)]
