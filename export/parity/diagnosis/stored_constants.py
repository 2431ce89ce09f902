"""The constants of the artifact that may have replaced a number, a list or an array of the model."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.diagnosis.captured_arrays import LEAST_VALUES
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.results import Array

_MOST_VALUES = 1024  # as a list or table of a layer has


def small_constants(probe: Probe) -> tuple[Array, ...]:
    """Returns the artifact's constants of at most 1,024 values."""
    try:
        stored = probe.runner.weights(), probe.runner.integers()
        first = [next(constants.pieces(name)) for constants in stored for name in constants]
    except RuntimeFailedError as error:
        probe.note("the constants in the artifact", error)
        return ()
    return tuple(each for each in first if each.dtype.kind in "fbiu" and 0 < each.size <= _MOST_VALUES)


def stored_instead(own: Any, constants: Iterable[Array]) -> Iterator[Any]:
    """Yields other constants of the artifact of the shape of a float, a list of floats or an array."""
    is_array = isinstance(own, np.ndarray)
    is_list = isinstance(own, list | tuple) and all(isinstance(each, float | int) for each in own)
    numbers = np.asarray(own if is_array or is_list or isinstance(own, float | np.floating) else 0)
    for stored in constants if is_array or numbers.dtype.kind == "f" else ():
        if stored.dtype.kind != numbers.dtype.kind or stored.squeeze().shape != numbers.squeeze().shape:
            continue
        with np.errstate(over="ignore"):  # a float16 file stores a mask of -1e9 as an infinity
            own_stored = numbers.astype(stored.dtype)
        other = stored.reshape(numbers.shape)
        if np.array_equal(other, own_stored, equal_nan=numbers.dtype.kind == "f"):
            continue
        if is_array:
            yield other.astype(numbers.dtype)
        else:  # the shortest decimal form in the type of the constant is what a person wrote
            yield [float(str(each)) for each in other] if is_list else float(str(other[()]))


def has_other_array(structure: Any, constants: Sequence[Array]) -> bool:
    """Whether constants of the artifact have the size and the kind of a large array, and none of them its values."""
    import keras

    for own in keras.tree.flatten(structure):
        if isinstance(own, np.ndarray) and own.size >= LEAST_VALUES:
            alike = [each for each in constants if each.dtype.kind == own.dtype.kind and each.size == own.size]
            if alike and not any(np.array_equal(each.ravel(), own.ravel().astype(each.dtype)) for each in alike):
                return True
    return False


def is_reordered(value: Any, other: Any) -> bool:
    """Whether two lists or arrays have the same values in another order."""
    return np.array_equal(np.sort(value, axis=None), np.sort(other, axis=None))
