"""The oracle for the valid shapes of a model, which infers the shapes of the layers, or calls the model."""

import contextlib
import re
import traceback
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.errors import UnknownSizesError, first_line
from keras_pe.export.model.sizes.shape_inference import GraphShapes, SymbolicShapes
from keras_pe.export.model.sizes.table_reads import TableEndError
from keras_pe.export.model.watch.code_places import describe_line, users_line
from keras_pe.export.model.watch.known_values import Filling, KnownValues
from keras_pe.export.model.watch.layer_paths import find_layer, layer_paths, layer_scopes
from keras_pe.export.model.watch.nested_arguments import FlatModel, PartialShape, StaticShape, leaves
from keras_pe.export.model.watch.recording import state_left_alone

_NODE = re.compile(r" for '\{\{node ([^}]+)\}\}.*", re.DOTALL)  # TensorFlow's words for the operator at fault
_POWERS = (4, 64, 4096)  # most models accept one of these sizes


class Oracle:
    """A model and its valid shapes. The state of the model does not change.

    Attributes:
        cause: The model's own error: of the first shapes whose inference failed, or of the last call that failed.
        asks_for_a_value: Whether the model accepts arrays, but refuses symbolic tensors of every size.
    """

    def __init__(self, model: FlatModel, values: KnownValues) -> None:
        self.model, self._values = model, values
        self._inference: GraphShapes | SymbolicShapes | None = None
        self._taken: dict[tuple[PartialShape, ...], bool] = {}
        self.cause: Exception | None = None
        self.asks_for_a_value = False

    def takes(self, shapes: Sequence[PartialShape]) -> bool:
        """Returns whether the layers accept these shapes, by shape inference. `None` is an unknown size.

        Raises:
            UnknownSizesError: If the layers need the value of a tensor, which does not depend on sizes.
        """
        asked = tuple(shapes)
        if asked not in self._taken:
            try:
                self._infer(shapes)
                self._taken[asked] = True
            except Exception as error:  # whatever the layers raise
                self.cause = self.cause or error
                if False not in self._taken.values():  # the first refused shapes
                    self.asks_for_a_value = self._takes_arrays_alone()
                if self.asks_for_a_value:
                    raise self.refusal() from error
                self._taken[asked] = False
        return self._taken[asked]

    def refusal(self) -> UnknownSizesError:
        """Returns the error for a model that refuses all sizes, with the model's own error and its line."""
        text = first_line(self.cause)
        if isinstance(self.cause, TableEndError):
            layer, rows = self._layer(self.cause.operator), self.cause.rows
            if layer and rows:
                reason = f"Layer {layer!r} reads past the end of its table of {rows} rows"
                return UnknownSizesError(reason, layer=layer, rows=rows)
        elif (node := _NODE.search(text)) and (layer := self._layer(node[1])):
            reason = f"Layer {layer!r} refuses these sizes: {text[: node.start()]}"
            return UnknownSizesError(reason, asks_for_a_value=self.asks_for_a_value, layer=layer)
        frames = traceback.extract_tb(self.cause.__traceback__ if self.cause else None)
        file, line = users_line(frames, ()) or (None, None)
        place = f" {describe_line(file, line)}" if file and line else ""
        reason = f"{text}{place}"
        return UnknownSizesError(reason, asks_for_a_value=self.asks_for_a_value, file=file, line=line)

    def _layer(self, operator: str) -> str:
        """Returns the path of the layer of an operator; an empty text between layers."""
        return find_layer(operator, layer_scopes(path for path, _ in layer_paths(self.model.layers[0])))

    def _takes_arrays_alone(self) -> bool:
        """Whether the model accepts zeros, but refuses symbolic tensors of equal shapes, as if it cannot be traced."""
        if not isinstance(self._inference, SymbolicShapes):
            return False
        tried = [
            [tuple(dim if isinstance(dim, int) else size for dim in shape) for shape in self.model.shapes]
            for size in _POWERS
        ]
        for shapes in tried:
            with contextlib.suppress(Exception):  # whatever the layers raise
                self._infer(shapes)
                return False
        return any(self.runs(shapes, Filling()) for shapes in tried[:2])

    def _infer(self, shapes: Sequence[PartialShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs without running the model."""
        if self._inference is None:
            self._inference = self._start_inference()
        return self._inference(shapes)

    def _start_inference(self) -> GraphShapes | SymbolicShapes:
        import keras

        if keras.backend.backend() == "tensorflow":
            try:
                return GraphShapes(self.model)
            except Exception as error:  # a layer may raise anything where a size is not known
                self.cause = error
        return SymbolicShapes(self.model)

    def table_sizes(self) -> tuple[int, ...]:
        """Returns the known sizes of the tables that the model reads, at which a range may end."""
        return self._inference.table_sizes if self._inference is not None else ()

    def call(self, shapes: Sequence[StaticShape], filling: Filling) -> Any:
        """Returns the results of the model for plain values of these shapes.

        Raises:
            Exception: Whatever the kernels raise.
        """
        inputs = replace(self._values, filling=filling).plain_tensors(self.model.specs(shapes))
        with state_left_alone():
            return self.model.call(list(inputs.values()))

    def runs(self, shapes: Sequence[StaticShape], filling: Filling) -> bool:
        """Returns whether the model runs on plain values of these shapes."""
        try:
            self.call(shapes, filling)
        except Exception:  # whatever the kernels raise
            return False
        return True

    @property
    def infers(self) -> bool:
        """Whether shape inference is ready. Inference then costs less than a call."""
        return self._inference is not None

    def output_shapes(self, shapes: Sequence[StaticShape], filling: Filling) -> list[StaticShape]:
        """Returns the shapes of the outputs, by inference, or by a call if inference leaves an unknown size.

        The values of the call vary, so that a count of some values does not equal a dimension. A text has more words
        than any dimension has entries, so that a count of words does not equal a dimension either.
        """
        inferred = self._infer(shapes) if self._inference else [None]
        if all(shape is not None and None not in shape for shape in inferred):
            return inferred  # type: ignore[return-value]  # no size is None
        words = 1 + 2 * max((size for shape in shapes for size in shape), default=0)
        run, specs = (self._inference or SymbolicShapes(self.model)).run, self.model.specs(shapes)
        values = replace(self._values, filling=filling)
        try:
            return shapes_of(run(list(values.varied_tensors(specs, words).values())))
        except Exception:  # the layers may accept certain values only
            return shapes_of(run(list(values.plain_tensors(specs, words).values())))


def shapes_of(results: Any) -> list[StaticShape]:
    """Returns the shapes of a model's results, flat.

    Raises:
        ValueError: If a result is symbolic.
    """
    if any(None in result.shape for _, result in leaves(results)):
        raise ArgValueError(
            "model",
            "must return values for values. Received: a model with an output that stays symbolic. "
            "A function in the model, such as one for `keras.ops.cond`, uses tensors that are not its arguments. Put "
            "the function into the `call` of a layer.",
        )
    return [tuple(int(dim) for dim in result.shape) for _, result in leaves(results)]
