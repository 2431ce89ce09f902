"""The weights of a model, and the constants of an artifact that store them, matched by name or by content."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from keras_pe.export.model.stored_weights import RECURRENT_OPERATORS, Folding, kernel_of, packed_cell
from keras_pe.export.model.watch.layer_paths import layer_paths, matched_paths
from keras_pe.export.parity.diagnosis.captured_arrays import CapturedArray, captured_arrays
from keras_pe.export.parity.diagnosis.foldings import folded_weights
from keras_pe.export.parity.diagnosis.relations import Change, is_same
from keras_pe.export.parity.diagnosis.relations.detection import UNEXPLAINED, find_change
from keras_pe.export.parity.diagnosis.weight_matching import content, nearest, orders_of, quantization, reordering
from keras_pe.export.results import Array, Cause, Finding, StoredWeights
from keras_pe.export.runtimes.runtime import Arrays, LazyArrays

_UNCERTAIN = {*UNEXPLAINED, Cause.REORDERED_VALUES}  # changes that do not prove a match by content
_ENDING = re.compile(r"(_quantized|_DQ)?(_Q\d+(G\d+)?)?$")


@dataclass(frozen=True)
class WeightFault:
    """A weight that the artifact stores with other values than the model.

    Attributes:
        layer: The path of the layer that owns the weight.
        weight: The path of the Keras variable.
        change: The change of the weight.
        is_certain: Whether the artifact's constant certainly is this weight, by its name or by the relation of the two.
        is_named: Whether the constant was matched by its name.
        is_folded: Whether a normalization is folded into both values.
        stored: The artifact's value, if only the likeness of the two matches it with the weight.
        is_captured: Whether it is an array that the layer captures, not a weight.
    """

    layer: str
    weight: str
    change: Change
    is_certain: bool
    is_named: bool = False
    is_folded: bool = False
    stored: Array | None = None
    is_captured: bool = False

    @property
    def finding(self) -> Finding:
        """The finding with the weight and the numbers of its change."""
        folded = " A normalization is folded into both values." if self.is_folded else ""
        description = f"Weight {self.weight!r}: {self.change}{folded}"
        return Finding(self.change.cause, description, self.layer, parameters=self.change.values)


class WeightPairs:
    """The float weights of a model, and the constants of an artifact that may store them.

    Attributes:
        variables: The weights, by path.
        layer_of: The path of the innermost layer that owns each weight.
        weights: The values of the weights, as an artifact stores them after `foldings`.
        constants: The constants, by name.
        named: The constants with the name of a weight, by the weight's path.
        packed: Some weights in the form in which an exporter may pack them for an operator.

    Args:
        model: The Keras model.
        constants: The numeric constants of the artifact, by name.
        foldings: The normalizations that certainly are folded, see `recorded_foldings`.
        integers: The names of constants to which a quantizer may have added a suffix, such as `_quantized` or `_Q4`.
    """

    def __init__(
        self, model: Any, constants: Mapping[str, Array], foldings: Sequence[Folding], integers: Iterable[str] = ()
    ) -> None:
        self.variables, self.layer_of = _float_variables(model)
        self.constants, self.foldings, self.packed = LazyArrays.of(constants), foldings, _packed_weights(model)
        self.weights = self.fold(foldings)
        names = {_ENDING.sub("", name): name for name in integers}
        names |= {name: name for name in constants if name not in integers}
        self.named = {path: names[name] for path, name in _constants_by_name(self.weights, names).items()}

    @cached_property
    def _free(self) -> list[str]:
        """The constants without the name of a weight."""
        taken = set(self.named.values())
        return [name for name in self.constants if name not in taken]

    @cached_property
    def _contents(self) -> dict[str, tuple[int, int]]:
        return {name: content(self.constants.pieces(name)) for name in self._free}

    def fold(self, foldings: Iterable[Folding], without: Container[str] = ()) -> LazyArrays:
        """Returns the weights as an artifact stores them after some normalizations are folded."""
        changed, gone = folded_weights(foldings)
        paths = [path for path in self.variables if path not in gone and path not in without]
        return LazyArrays(paths, lambda path: changed[path] if path in changed else weight_values(self.variables[path]))

    def fault(self, path: str, change: Change, *, is_certain: bool = True, **facts: Any) -> WeightFault:
        """Returns the fault of a weight."""
        facts["is_captured"] = isinstance(self.variables[path], CapturedArray)
        return WeightFault(self.layer_of[path], path, change, is_certain, path in self.named, **facts)

    def forms(self, path: str, weight: Array) -> list[Array]:
        """Returns a weight in the form that an operator packs, if there is one, and in the form of Keras."""
        return [self.packed[path], weight] if path in self.packed else [weight]

    def candidates(self, path: str) -> Iterator[tuple[str, Array]]:
        """Yields the constant with the name of a weight, or else all constants without the name of a weight."""
        names = [self.named[path]] if path in self.named else self._free
        return ((name, self.constants[name]) for name in names)

    def another_weight(self, path: str, shape: tuple[int, ...], has: Callable[[Array], bool]) -> Change | None:
        """Returns the change if the constant of a weight has the values of another weight of equal shape, else None."""
        for other, weight in self.weights.items():
            if other != path and weight.shape == shape and has(weight):
                return Change(Cause.ANOTHER_WEIGHT, "It has the values of {other!r}.", {"other": other})
        return None

    def count(self, changes: Iterable[tuple[str, Change | None]]) -> tuple[StoredWeights, list[WeightFault]]:
        """Returns the number of stored weights, including those folded into a stored one, and their faults.

        Args:
            changes: The path of each stored weight with its change; None if the weight is right.
        """
        found = dict(changes)
        every = set(found)
        for folding in self.foldings:
            every |= folding.gone if {kernel_of(folding.layer).path, folding.bias_owner.path} <= every else set()
        sizes = {path: int(np.prod(v.shape)) * weight_values(v).itemsize for path, v in self.variables.items()}
        stored = StoredWeights(len(sizes), len(every), sum(sizes.values()), sum(sizes[path] for path in every))
        return stored, [self.fault(path, change) for path, change in found.items() if change is not None]

    def match(
        self, weights: Mapping[str, Array], computed: Container[str] = ()
    ) -> tuple[dict[str, str], dict[int, list[str]]]:
        """Returns the constant with the values of each weight, in any order, and the names of the others by size.

        Several constants may be equal throughout. Such a constant cannot be assigned to one weight and stays in the
        rest.

        Args:
            weights: The weights without a name in the artifact, by path.
            computed: The paths of weights that an exporter has computed, with its own rounding.
        """
        unused: dict[int, list[str]] = {}
        for name, (size, _) in self._contents.items() if weights else ():
            unused.setdefault(size, []).append(name)
        found: dict[str, str] = {}
        for path, array in weights.items():
            matches = (self._same(form, unused, path in computed) for form in self.forms(path, array))
            same = next((name for name in matches if name is not None), None)
            if same is None:
                continue
            found[path] = same
            if array.size > 1 and np.ptp(array) > 0:
                unused[self._contents[same][0]].remove(same)
        return found, unused

    def _same(self, weight: Array, unused: Mapping[int, Iterable[str]], is_computed: bool) -> str | None:
        """Returns a constant with the values of a weight, in any order; None without one."""
        names = unused.get(weight.size, ())
        if is_computed:
            values = np.sort(weight, axis=None)
            return next((name for name in names if is_same(np.sort(self.constants[name], axis=None), values)), None)
        own = content([weight]) if names else None
        return next((name for name in names if self._contents[name] == own), None)

    def unnamed_faults(self, foldings: Sequence[Folding]) -> Iterator[tuple[str, WeightFault | None]]:
        """Yields the weights that content matches with a constant, each with its fault; None if the two are equal.

        Args:
            foldings: The normalizations that are folded.
        """
        weights, computed = self.fold(foldings, self.named), folded_weights(foldings)[0]
        same, unused = self.match(weights, computed)
        for path, name in same.items():
            array = weights[path]
            if array.size == 1 or np.ptp(array) == 0:
                continue
            constant = self.constants[name]
            forms = [form for form in self.forms(path, array) if form.size == constant.size]
            forms = [form for form in forms if form.shape == constant.shape] or forms
            orders = [orders_of(form, constant) for form in forms]
            if path not in computed and all(each == [] for each in orders):
                change = reordering(forms, constant)
                yield path, self.fault(path, change, is_certain=change.cause not in _UNCERTAIN)
            elif any(any(each or ()) for each in orders):
                yield path, None
        lost = {path: self.forms(path, weights[path])[0].shape for path in weights if path not in same}
        for path, shape in lost.items():
            if _is_folded(path, lost):
                continue
            array = self.forms(path, weights[path])[0]
            constants = LazyArrays(unused.get(array.size, ()), self.constants.__getitem__)
            found, likeness, stored = quantization(array, constants), np.inf, None
            if found is None:
                is_alone = list(lost.values()).count(shape) == 1
                likeness, stored = nearest(array, constants, is_alone=is_alone)
                found = None if stored is None else find_change(array, stored)
            if found is not None:
                is_own = path not in computed and path not in self.packed
                is_certain = found.cause not in _UNCERTAIN or (is_own and likeness == np.inf)
                stored = stored if is_own and likeness < np.inf else None
                yield path, self.fault(path, found, is_certain=is_certain, is_folded=path in computed, stored=stored)


def _float_variables(model: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the float weights, and the path of the innermost layer that owns each, both by path."""
    import keras

    variables = {v.path: v for v in model.weights if "float" in keras.backend.standardize_dtype(v.dtype)}
    # Inner layers come after enclosing layers and override them.
    owners = {id(v): path for path, layer in layer_paths(model) for v in getattr(layer, "variables", ())}
    layer_of = {path: owners.get(id(variable), "") for path, variable in variables.items()}
    for path, captured in captured_arrays(model):
        variables[captured.path], layer_of[captured.path] = captured, path
    return variables, layer_of


def _constants_by_name(variables: Mapping[str, Any], constants: Iterable[str]) -> dict[str, str]:
    """Returns the constants with the name of a weight, by the weight's path.

    A recreated model may have another name, with which the paths of its weights may begin.
    """
    names = set(constants)
    found = matched_paths(variables, names)
    if len({path.partition("/")[0] for path in variables}) == 1:  # the model's own name
        tails = Counter(name.partition("/")[2] for name in names)
        alone = {name.partition("/")[2]: name for name in names if tails[name.partition("/")[2]] == 1}
        own = {path.partition("/")[2]: path for path in variables if path not in found and path.count("/") > 1}
        found |= {own[tail]: alone[other] for tail, other in matched_paths(own, alone).items()}
    return found


def _packed_weights(model: Any) -> Arrays:
    """Returns the weights of recurrent layers in the form of ONNX's operators, by the path of the variable."""
    cells = {id(cell): cell for _, layer in layer_paths(model) if (cell := getattr(layer, "cell", None)) is not None}
    return {
        getattr(cell, name).path: array
        for cell in cells.values()
        if type(cell).__name__ in RECURRENT_OPERATORS and cell.built
        for name, array in packed_cell(cell).items()
        if getattr(cell, name) is not None
    }


def weight_values(variable: Any) -> Array:
    """Returns a weight as an array; on TensorFlow without a copy, since a copy of a large one may not fit."""
    import keras

    if isinstance(variable, CapturedArray):
        return variable.value
    if keras.backend.backend() == "tensorflow":
        return np.asarray(keras.ops.stop_gradient(variable.value))
    array: Array = keras.ops.convert_to_numpy(variable.value)
    return array


def _is_folded(path: str, lost: Container[str]) -> bool:
    """Whether a weight belongs to a normalization whose scale and variance are missing.

    The exporter has then combined all its weights, so likeness proves nothing.
    """
    owner, _, name = path.rpartition("/")
    parts = ("gamma", "beta", "moving_mean", "moving_variance")
    return name in parts and f"{owner}/moving_variance" in lost and f"{owner}/gamma" in lost
