"""One animal of the zoo: how to make it, and what goes in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_pe.export.records import TensorInfo

SIZES = ((1, 2), (3, 7), (5, 19))  # batch and length: never traced, never equal


@dataclass(frozen=True)
class Entry:
    """A model of the zoo.

    Attributes:
        make: Returns the model, with random weights.
        signature: The `input_signature` of the export, where the model does not know it.
        integers: One more than the largest integer input.
        sizes: Batch and length of each trial; further dynamic dimensions are four longer each.
        refused: For a model that has no ONNX form: what the refusal must say.
    """

    make: Callable[[], Any]
    signature: Any = None
    integers: int = 10
    sizes: tuple[tuple[int, int], ...] = SIZES
    refused: str | None = None

    def inputs(self, specs: Iterable[TensorInfo], batch: int, length: int) -> dict[str, np.ndarray]:
        """Returns random inputs: normal floats; integers from 1; masks with padding in every row but the first."""
        random = np.random.default_rng([batch, length])
        specs = tuple(specs)
        names = dict.fromkeys(dim for spec in specs for dim in spec.shape if isinstance(dim, str) and dim != "batch")
        sizes = {"batch": batch} | {name: length + 4 * i for i, name in enumerate(names)}
        return {spec.name: self._array(spec, [sizes.get(d, d) for d in spec.shape], random) for spec in specs}

    def _array(self, spec: TensorInfo, shape: list[int], random: np.random.Generator) -> np.ndarray:
        if "mask" in spec.name:
            lengths = np.maximum(1, shape[1] - np.arange(shape[0]) % shape[1])
            return (np.arange(shape[1]) < lengths[:, None]).astype(spec.dtype)
        if spec.dtype.startswith("float"):
            return random.normal(size=shape).astype(spec.dtype)
        if "segment" in spec.name:
            return random.integers(0, 2, shape).astype(spec.dtype)
        return random.integers(1, self.integers, shape).astype(spec.dtype)
