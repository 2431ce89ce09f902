"""The weights of the artifact beside the model's, one by one: most faults are seen there, and nothing has to run."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_pe.export.model.recording import layer_paths
from keras_pe.export.model.recurrent_weights import OPERATORS, packed
from keras_pe.export.parity.diagnosis.folding import folded_weights
from keras_pe.export.parity.diagnosis.relations import describe_change, describe_quantized, is_same
from keras_pe.export.parity.results import Array
from keras_pe.export.runtimes.lazy_arrays import LazyArrays
from keras_pe.export.runtimes.runtime import Arrays

_UNRELATED = ("changed values", "other shape")
_AT_ONCE = 2**22  # numbers that are widened at a time
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


def compare_weights(
    model: Any, constants: Mapping[str, Array], folded: Iterable[tuple[Any, Any]] = ()
) -> list[WeightFault]:
    """Returns the weights that differ, in the model's order.

    A constant is taken for a weight by its name, as in this package's files, or else by its content. A weight may be
    missing without a fault: an exporter may have folded it into another. Few are looked at at a time, since the weights
    of a large model do not fit into memory once more.

    Args:
        model: The Keras model.
        constants: The numeric constants of the artifact, by name.
        folded: Layers, each with the normalization that is folded into its weights.
    """
    variables = {v.path: v for v in model.variables if _is_float(v)}
    owners = owners_of(model)
    layer_of = {path: owners.get(id(variable), "") for path, variable in variables.items()}
    named = _by_name(variables, constants)
    faults = [
        WeightFault(layer_of[path], path, *found, is_certain=True, is_named=True)
        for path, name in named.items()
        if (found := _change(path, variables, constants[name])) is not None
    ]
    changed, gone = folded_weights(folded)
    missing = [path for path in variables if path not in named and path not in gone]
    if not missing:
        return faults
    others = _packed(model) | changed
    stored = LazyArrays(missing, lambda path: others[path] if path in others else _numpy(variables[path]))
    taken = set(named.values())
    free = LazyArrays([name for name in constants if name not in taken], constants.__getitem__)
    found_by_content = _by_content(stored, free, layer_of, changed)
    return faults + [_said_of_folded(fault) if fault.weight in changed else fault for fault in found_by_content]


def _by_name(variables: Mapping[str, Any], constants: Iterable[str]) -> dict[str, str]:
    """Returns the constants that are called like a weight, by the weight's path.

    A model that was made again may have another name itself, with which the paths of its weights may begin.
    """
    names = set(constants)
    tails = Counter(name.partition("/")[2] for name in names)
    alone = {name.partition("/")[2]: name for name in names if tails[name.partition("/")[2]] == 1}
    is_prefixed = len({path.partition("/")[0] for path in variables}) == 1  # by the model's own name
    found = {}
    for path in variables:
        tail = path.partition("/")[2]
        name = path if path in names else alone.get(tail) if is_prefixed and "/" in tail else None
        if name is not None:
            found[path] = name
    return found


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


def _change(path: str, variables: Mapping[str, Any], actual: Array) -> tuple[str, str] | None:
    found = describe_change(_numpy(variables[path]), actual)
    if found is None or found[0] not in _UNRELATED:
        return found
    for other, variable in variables.items():
        is_alike = other != path and tuple(variable.shape) == actual.shape and actual.size > 1
        if is_alike and np.array_equal(_numpy(variable), actual):
            return "another weight", f"It holds the values of {other!r}."
    return found


def _by_content(
    weights: Mapping[str, Array], constants: Mapping[str, Array], layer_of: Mapping[str, str], computed: Container[str]
) -> Iterator[WeightFault]:
    """Yields the weights whose content no constant has, with the constant that is most like them.

    Those that are `computed` an exporter has rounded in its own way.
    """
    unused: dict[int, list[str]] = {}
    contents: dict[str, bytes] = {}
    for name, array in constants.items():
        unused.setdefault(array.size, []).append(name)
        contents[name] = _content(np.sort(array, axis=None))
    lost: dict[str, tuple[int, ...]] = {}
    for path, array in weights.items():
        names = unused.get(array.size, [])
        values = np.sort(array, axis=None)
        if path in computed:
            same = next((name for name in names if is_same(np.sort(constants[name], axis=None), values)), None)
        else:
            own = _content(values)
            same = next((name for name in names if contents[name] == own), None)
        if same is None:
            lost[path] = array.shape
        elif array.size > 1 and np.ptp(array) > 0:
            names.remove(same)
            if path not in computed and _is_reordered(array, constants[same]):
                text = "It has the same values in another order, whichever way its axes stand."
                yield WeightFault(layer_of[path], path, "reordered values", text, is_certain=False)
    for path, shape in lost.items():
        if _is_folded(path, lost):
            continue
        array = weights[path]
        names = unused.get(array.size, [])
        found = _quantized(array, constants, names) or _nearest(array, constants, names)
        if found is None and list(lost.values()).count(shape) == 1:
            found = _only_one(array, constants, names)
        if found is not None:
            yield WeightFault(layer_of[path], path, *found, is_certain=found[0] not in _UNRELATED)


def _is_reordered(weight: Array, constant: Array) -> bool:
    """Whether a constant that has a weight's values has them in no order that turning its axes explains."""
    one, other = (np.squeeze(array) for array in (weight, constant))
    if one.ndim != other.ndim or sorted(one.shape) != sorted(other.shape):
        return False  # an exporter has its own way of laying it out
    orders = itertools.permutations(range(other.ndim))
    return not any(np.array_equal(one, other.transpose(axes)) for axes in orders)


def _is_folded(path: str, lost: Container[str]) -> bool:
    """Whether a weight is one of a normalization whose variance is lost as well: the exporter has made others of all,
    and what these are like tells nothing."""
    owner, _, name = path.rpartition("/")
    return name in ("gamma", "beta", "moving_mean") and f"{owner}/moving_variance" in lost and f"{owner}/gamma" in lost


def _content(values: Array) -> bytes:
    """Returns a short stand-in for numbers that are in order: equal numbers of any type have the same."""
    digest = hashlib.sha256()
    for start in range(0, values.size, _AT_ONCE):
        digest.update((values[start : start + _AT_ONCE].astype(np.float64) + 0.0).tobytes())  # -0.0 is 0.0
    return digest.digest()


def _quantized(array: Array, constants: Mapping[str, Array], names: Iterable[str]) -> tuple[str, str] | None:
    """Returns what is said of a weight that one of the constants holds in integers."""
    stored = (constants[name] for name in names if constants[name].dtype.kind in "iu")
    forms = (turned for constant in stored for turned in _forms(constant, array.shape))
    return next((found for turned in forms if (found := describe_quantized(array, turned)) is not None), None)


def _nearest(array: Array, constants: Mapping[str, Array], names: Iterable[str]) -> tuple[str, str] | None:
    """Returns what has happened to a weight, if the constant that is most like it is like it enough."""
    floats = (constants[name] for name in names if constants[name].dtype.kind not in "iu")
    best = max(
        ((_likeness(array, turned), turned) for constant in floats for turned in _forms(constant, array.shape)),
        key=lambda pair: pair[0],
        default=None,
    )
    return None if best is None or best[0] < _ALIKE else describe_change(array, best[1])


def _only_one(array: Array, constants: Mapping[str, Array], names: Iterable[str]) -> tuple[str, str] | None:
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
    """Returns the cosine between two arrays, of whatever sign."""
    products = np.zeros(3)
    rows = max(1, _AT_ONCE * len(one) // one.size) if one.ndim else 1
    for start in range(0, len(one) if one.ndim else 1, rows):
        a, b = (np.atleast_1d(x)[start : start + rows].astype(np.float64).ravel() for x in (one, other))
        products += (a @ b, a @ a, b @ b)
    lengths = np.sqrt(products[1] * products[2])
    return float(abs(products[0]) / lengths) if lengths > 0 else 0.0


def _is_float(variable: Any) -> bool:
    import keras

    return "float" in keras.backend.standardize_dtype(variable.dtype)


def _numpy(variable: Any) -> Array:
    """Returns a weight, on TensorFlow as it lies in memory: a copy of a large one may not fit."""
    import keras

    if keras.backend.backend() == "tensorflow":
        return np.asarray(keras.ops.stop_gradient(variable.value))
    array: Array = keras.ops.convert_to_numpy(variable.value)
    return array
