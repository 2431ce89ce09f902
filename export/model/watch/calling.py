"""A model called with its inputs in a flat list, which is how it is traced and asked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.nesting import leaves, map_leaves
from keras_pe.export.model.watch.vocabulary import Vocabulary

Shape = tuple[int | str | None, ...]
"""Of an input: `None` or a name where a dimension is dynamic."""

StaticShape = tuple[int, ...]


class FlatModel:
    """A model and what it takes.

    Attributes:
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
        self._model, self._structure, self._names = model, structure, list(inputs)
        self.shapes = [shape for shape, _ in inputs.values()]
        self.dtypes = [dtype for _, dtype in inputs.values()]
        self.layers = all_layers(model)
        self.variables = list({id(variable): variable for variable in model.variables}.values())

    def call(self, arrays: Sequence[Any]) -> Any:
        """Returns what the model returns in inference."""
        named = dict(zip(self._names, arrays, strict=True))
        return self._model(*map_leaves(self._structure, named.__getitem__), training=False)

    def outputs(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the same as a flat list."""
        return [result for _, result in leaves(self.call(arrays))]


def zeros(shape: StaticShape, dtype: str, vocabulary: Vocabulary | None = None, words: int = 0) -> Any:
    """Returns zeros as tensors of the backend, where it knows strings texts of so many words.

    Where only the entries of a vocabulary are taken, it is the first of them.
    """
    import keras

    if vocabulary and vocabulary.is_closed:
        return _tensor(np.full(shape, vocabulary.entries[0], object if dtype == "string" else dtype), dtype)
    if dtype != "string":
        return keras.ops.zeros(shape, dtype)
    return _tensor(np.full(shape, " ".join("a" * words), object), dtype)


def varied(shape: StaticShape, dtype: str, vocabulary: Vocabulary | None = None, words: int = 0) -> Any:
    """Returns values of both signs as tensors of the backend, zeros and ones of other types, texts as `zeros` does.

    Where only the entries of a vocabulary are taken, it is these in turn.
    """
    import keras

    if vocabulary and vocabulary.is_closed:
        entries = np.array(vocabulary.entries, object if dtype == "string" else dtype)
        return _tensor(np.resize(entries, shape), dtype)
    if dtype == "string":
        return zeros(shape, dtype, vocabulary, words)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    values = np.sin(1 + numbers) if "float" in dtype else numbers % 2
    return keras.ops.convert_to_tensor(values, dtype)


def _tensor(values: Any, dtype: str) -> Any:
    import keras

    is_known = dtype != "string" or keras.backend.backend() == "tensorflow"
    return keras.ops.convert_to_tensor(values) if is_known else values
