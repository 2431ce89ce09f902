"""The weights of the artifact beside the model's, one by one: most faults are seen there, and nothing has to run."""

import itertools
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_pe.export.model.recording import layer_paths
from keras_pe.export.model.recurrent_weights import OPERATORS, packed
from keras_pe.export.parity.diagnosis.folding import folded_weights
from keras_pe.export.parity.diagnosis.relations import describe_change, describe_quantized, is_same
from keras_pe.export.parity.results import Array
from keras_pe.export.runtimes.runtime import Arrays

_UNRELATED = ("changed values", "other shape")
_ALIKE = 0.9  # cosine of a weight and what has become of it, where nothing else tells that they belong together


@dataclass(frozen=True)
class WeightFault:
    """A weight that the artifact does not hold as the model does.

    Attributes:
        layer: The path of the layer that owns it.
        weight: The path of the Keras variable.
        cause: What has happened to it.
        evidence: A sentence with the numbers.
        is_certain: Whether the artifact's constant is surely this weight: by its name, or by what relates the two.
        is_named: Whether it was found by its name.
    """

    layer: str
    weight: str
    cause: str
    evidence: str
    is_certain: bool
    is_named: bool = False


def compare_weights(model: Any, constants: Arrays, folded: Iterable[tuple[Any, Any]] = ()) -> list[WeightFault]:
    """Returns the weights that differ, in the model's order.

    A constant is taken for a weight by its name, as in this package's files, or else by its content. A weight may be
    missing without a fault: an exporter may have folded it into another.

    Args:
        model: The Keras model.
        constants: The floating-point constants of the artifact, by name.
        folded: Layers, each with the normalization that is folded into its weights.
    """
    weights = {v.path: _numpy(v) for v in model.variables if _is_float(v)}
    owners = owners_of(model)
    paths = {id(v): v.path for v in model.variables}
    layer_of = {paths[key]: layer for key, layer in owners.items() if key in paths}
    named = {path for path in weights if path in constants}
    free = {name: array for name, array in constants.items() if name not in named}
    faults = [
        WeightFault(layer_of.get(path, ""), path, *found, is_certain=True, is_named=True)
        for path in weights
        if path in named and (found := _change(path, weights, constants[path])) is not None
    ]
    changed, gone = folded_weights(folded)
    as_stored = weights | _packed(model) | changed
    missing = {path: as_stored[path] for path in weights if path not in named | gone}
    found_by_content = _by_content(missing, free, layer_of, changed)
    return faults + [_said_of_folded(fault) if fault.weight in changed else fault for fault in found_by_content]


def _said_of_folded(fault: WeightFault) -> WeightFault:
    return replace(fault, evidence=f"{fault.evidence} Both with the normalization after it folded into it.")


def _packed(model: Any) -> Arrays:
    """Returns the weights of recurrent layers as ONNX's operators hold them, by the path of the variable."""
    cells = {id(cell): cell for _, layer in layer_paths(model) if (cell := getattr(layer, "cell", None)) is not None}
    return {
        getattr(cell, name).path: array
        for cell in cells.values()
        if type(cell).__name__ in OPERATORS and cell.built
        for name, array in packed(cell).items()
        if getattr(cell, name) is not None
    }


def owners_of(model: Any) -> dict[int, str]:
    """Returns the path of the innermost layer that owns each variable, by the variable's id."""
    owners: dict[int, str] = {}
    for path, layer in layer_paths(model):  # outer layers come before what is in them
        for variable in getattr(layer, "variables", ()):
            owners[id(variable)] = path
    return owners


def _change(path: str, weights: Mapping[str, Array], actual: Array) -> tuple[str, str] | None:
    found = describe_change(weights[path], actual)
    if found is None or found[0] not in _UNRELATED:
        return found
    for other, array in weights.items():
        if other != path and array.shape == actual.shape and array.size > 1 and np.array_equal(array, actual):
            return "another weight", f"It holds the values of {other!r}."
    return found


def _by_content(
    weights: Mapping[str, Array], constants: Arrays, layer_of: Mapping[str, str], computed: Container[str]
) -> Iterator[WeightFault]:
    """Yields the weights whose content no constant has, with the constant that is most like them.

    Those that are `computed` an exporter has rounded in its own way.
    """
    unused: dict[int, list[str]] = {}
    for name, array in constants.items():
        unused.setdefault(array.size, []).append(name)
    sorted_values = {name: np.sort(array, axis=None) for name, array in constants.items()}
    lost = []
    for path, array in weights.items():
        values = np.sort(array, axis=None)
        names = unused.get(array.size, [])
        is_equal = is_same if path in computed else np.array_equal
        same = next((name for name in names if is_equal(sorted_values[name], values)), None)
        if same is None:
            lost.append(path)
        elif array.size > 1 and np.ptp(array) > 0:
            names.remove(same)
    for path in lost:
        names = unused.get(weights[path].size, [])
        found = _quantized(weights[path], constants, names) or _nearest(weights[path], constants, names)
        if found is None and [weights[other].shape for other in lost].count(weights[path].shape) == 1:
            found = _only_one(weights[path], constants, names)
        if found is not None:
            yield WeightFault(layer_of.get(path, ""), path, *found, is_certain=found[0] not in _UNRELATED)


def _quantized(array: Array, constants: Arrays, names: Iterable[str]) -> tuple[str, str] | None:
    """Returns what is said of a weight that one of the constants holds in integers."""
    stored = (constants[name] for name in names if constants[name].dtype.kind in "iu")
    forms = (turned for constant in stored for turned in _forms(constant, array.shape))
    return next((found for turned in forms if (found := describe_quantized(array, turned)) is not None), None)


def _nearest(array: Array, constants: Arrays, names: Iterable[str]) -> tuple[str, str] | None:
    """Returns what has happened to a weight, if the constant that is most like it is like it enough."""
    floats = (constants[name] for name in names if constants[name].dtype.kind not in "iu")
    best = max(
        ((_likeness(array, turned), turned) for constant in floats for turned in _forms(constant, array.shape)),
        key=lambda pair: pair[0],
        default=None,
    )
    return None if best is None or best[0] < _ALIKE else describe_change(array, best[1])


def _only_one(array: Array, constants: Arrays, names: Iterable[str]) -> tuple[str, str] | None:
    """Returns what has happened to a weight if no other constant can be it."""
    fitting = [constants[name] for name in names if constants[name].shape == array.shape]
    return describe_change(array, fitting[0]) if len(fitting) == 1 else None


def _forms(constant: Array, shape: tuple[int, ...]) -> list[Array]:
    """Returns a constant in a weight's shape, for each order of axes that it may stand in."""
    if constant.shape != shape and constant.ndim != len(shape):
        return [constant.reshape(shape)]
    orders = itertools.permutations(range(constant.ndim))
    return [turned for axes in orders if (turned := constant.transpose(axes)).shape == shape]


def _likeness(one: Array, other: Array) -> float:
    a, b = one.astype(np.float64).ravel(), other.astype(np.float64).ravel()
    lengths = np.linalg.norm(a) * np.linalg.norm(b)
    return float(abs(a @ b) / lengths) if lengths > 0 else 0.0


def _is_float(variable: Any) -> bool:
    import keras

    return "float" in keras.backend.standardize_dtype(variable.dtype)


def _numpy(variable: Any) -> Array:
    import keras

    array: Array = keras.ops.convert_to_numpy(variable.value)
    return array
