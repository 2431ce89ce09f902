"""One model of keras-hub: how to make it small, and what goes in."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.records import TensorInfo

VOCABULARY = 30


@dataclass(frozen=True)
class Recipe:
    """A small model of keras-hub.

    Attributes:
        make: Returns the model, with random weights.
        below: The exclusive upper bound of an integer input, by its name: a number, or a dimension's name.
            Token ids stay below `VOCABULARY`, others below 2.
        shares: Float inputs that are shares of an image, from 0 to 1, by name.
        sizes: The sizes given to the export, where it cannot find them.
        signature: The `input_signature` of the export, where the model does not know it.
        refused: For a model that has no ONNX form: what the refusal must say.
        in_keras: With it: what Keras' own export does with the same model.
        without_draws: With it: the outputs that are exported, where it is others that draw random numbers.
    """

    make: Callable[[], Any]
    below: Mapping[str, int | str] = field(default_factory=dict)
    shares: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[int, ...]] | None = None
    signature: Any = None
    refused: str | None = None
    in_keras: str | None = None
    without_draws: tuple[str, ...] = ()

    def inputs(self, specs: Iterable[TensorInfo], sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
        """Returns random inputs: normal floats; integers; masks with padding in every row but the first; indices of
        steps, none twice in a row."""
        rng = np.random.default_rng(seed)
        return {spec.name: self._array(spec, sizes, rng) for spec in specs}

    def _array(self, spec: TensorInfo, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in spec.shape]
        if spec.name in self.shares:
            return rng.uniform(size=shape).astype(spec.dtype)
        if spec.dtype.startswith("float"):
            return rng.normal(size=shape).astype(spec.dtype)
        if spec.name.endswith("indices"):
            places = np.tile(np.arange(sizes["length"]), (shape[0], 1))
            return rng.permuted(places, axis=1)[:, : shape[1]].astype(spec.dtype)
        if spec.name.endswith("mask") and len(shape) == 2 and spec.name not in self.below:
            lengths = np.maximum(1, shape[1] - np.arange(shape[0]) % shape[1])
            return (np.arange(shape[1]) < lengths[:, None]).astype(spec.dtype)
        below = self.below.get(spec.name, VOCABULARY if spec.name.endswith("token_ids") else 2)
        return rng.integers(0, sizes[below] if isinstance(below, str) else below, shape).astype(spec.dtype)
