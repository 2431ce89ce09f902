"""A model called with its inputs in a flat list, which is how it is traced and asked."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.known_values import StaticShape as StaticShape
from keras_pe.export.model.watch.nesting import leaves, map_leaves

Shape = tuple[int | str | None, ...]
"""Of an input: `None` or a name where a dimension is dynamic."""


class FlatModel:
    """A model and what it takes.

    Attributes:
        names: Of its inputs.
        shapes: Of its inputs; `None` or a name where a dimension is dynamic.
        dtypes: Of its inputs.
        variables: The model's, each once.
        layers: The model, then every layer in it.
    """

    def __init__(self, model: Any, structure: Any, inputs: Mapping[str, tuple[Shape, str]]) -> None:
        """Keeps the model.

        Args:
            model: The Keras model.
            structure: The positional arguments of its call, with names as leaves.
            inputs: The shape and dtype of each name.
        """
        self._model, self._structure, self.names = model, structure, list(inputs)
        self.shapes = [shape for shape, _ in inputs.values()]
        self.dtypes = [dtype for _, dtype in inputs.values()]
        self.layers = all_layers(model)
        self.variables = list({id(variable): variable for variable in model.variables}.values())

    def call(self, arrays: Sequence[Any]) -> Any:
        """Returns what the model returns in inference."""
        named = dict(zip(self.names, arrays, strict=True))
        return self._model(*map_leaves(self._structure, named.__getitem__), training=False)

    def outputs(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the same as a flat list."""
        return [result for _, result in leaves(self.call(arrays))]
