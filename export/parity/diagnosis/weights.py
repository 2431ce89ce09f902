"""Compares the artifact's weights with the model's, one by one. This finds most faults without running anything."""

import itertools
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_pe.export.model.stored_weights import (
    RECURRENT_OPERATORS,
    Folding,
    kernel_of,
    packed_cell,
)
from keras_pe.export.model.watch.layer_paths import layer_paths, matched_paths
from keras_pe.export.parity.diagnosis.captured_arrays import CapturedArray, captured_arrays
from keras_pe.export.parity.diagnosis.foldings import folded_weights
from keras_pe.export.parity.diagnosis.relations import Change
from keras_pe.export.parity.diagnosis.relations.detection import UNEXPLAINED, find_change
from keras_pe.export.parity.diagnosis.weight_matching import (
    changes_by_content,
    differs_in_part,
    forms_of,
    is_stored_as,
    is_stored_in,
    matched_by_content,
)
from keras_pe.export.results import Array, Cause, Finding, StoredWeights
from keras_pe.export.runtimes.runtime import Arrays, LazyArrays

_UNCERTAIN = {*UNEXPLAINED, Cause.REORDERED_VALUES}  # changes that do not prove a match by content


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
    """

    layer: str
    weight: str
    change: Change
    is_certain: bool
    is_named: bool = False
    is_folded: bool = False
    stored: Array | None = None

    @property
    def finding(self) -> Finding:
        """The finding with the weight and the numbers of its change."""
        folded = " A normalization is folded into both values." if self.is_folded else ""
        description = f"Weight {self.weight!r}: {self.change}{folded}"
        return Finding(self.change.cause, description, self.layer, parameters=self.change.values)


@dataclass(frozen=True)
class WeightComparison:
    """The weights that the artifact stores with other values, and the paths of equal weights."""

    faults: list[WeightFault]
    sound: frozenset[str]


def compare_weights(
    model: Any,
    constants: Mapping[str, Array],
    foldable: Iterable[Folding] = (),
    foldings: Sequence[Folding] = (),
) -> WeightComparison:
    """Returns the weights that differ, in the model's order, and the paths of equal weights.

    A constant is matched with a weight by its name, as in this package's files, or else by its content. A missing
    weight is not a fault, since an exporter may have folded it into another. Only a few weights are compared at a time,
    since a copy of all weights of a large model does not fit in memory.

    Args:
        model: The Keras model.
        constants: The numeric constants of the artifact, by name.
        foldable: The normalizations that may be folded into the weights of layers, see `possible_foldings`.
        foldings: The normalizations that certainly are folded, see `recorded_foldings`.
    """
    variables, layer_of = float_variables(model)
    weights = as_stored(variables, foldings)
    named = constants_by_name(weights, constants)
    changed = folded_weights(foldings)[0]
    faults = [
        WeightFault(layer_of[path], path, found, is_certain=True, is_named=True, is_folded=path in changed)
        for path, name in named.items()
        if (found := _change(path, weights, constants[name])) is not None
    ]
    sound = named.keys() - {fault.weight for fault in faults}
    taken = set(named.values())
    free = LazyArrays.of(constants).only(name for name in constants if name not in taken)
    is_complete = len(named) == len(weights)
    lost = [] if is_complete else [each for each in foldable if each not in foldings and _is_lost(each, named, free)]
    folded = [*foldings, *lost]
    changed, missing = folded_weights(folded)[0], as_stored(variables, folded, named)
    packs = packed_weights(model)
    for path, change, stored in changes_by_content(missing, packs, free, changed) if missing else ():
        if change is None:
            sound.add(path)
            continue
        stored = None if path in changed or path in packs else stored
        is_part = stored is not None and differs_in_part(missing[path], stored, is_named=False)
        is_certain, stored = is_part or change.cause not in _UNCERTAIN, None if is_part else stored
        faults.append(WeightFault(layer_of[path], path, change, is_certain, is_folded=path in changed, stored=stored))
    for folding in folded:
        faults = _with_scale(faults, folding, layer_of)
    return WeightComparison(faults, frozenset(sound))


def as_stored(variables: Mapping[str, Any], folded: Iterable[Folding], without: Container[str] = ()) -> LazyArrays:
    """Returns the weights as an artifact stores them after some normalizations are folded."""
    changed, gone = folded_weights(folded)
    paths = [path for path in variables if path not in gone and path not in without]
    return LazyArrays(paths, lambda path: changed[path] if path in changed else _numpy(variables[path]))


def _with_scale(faults: list[WeightFault], folding: Folding, layer_of: Mapping[str, str]) -> list[WeightFault]:
    """Returns the faults, with a kernel's fault moved to its folded normalization if each channel has another factor.

    The scale or the variance of the normalization then differs, and the change of the bias follows from it.
    """
    own = {variable.path for variable in (*folding.layer.variables, *folding.norm.variables)}
    kernel = next((each for each in faults if each.weight == kernel_of(folding.layer).path), None)
    if kernel is None or kernel.change.cause is not Cause.SCALED_VALUES or "axis" not in kernel.change.parameters:
        return faults
    scale = replace(kernel, layer=layer_of[folding.norm.moving_variance.path])
    return [each for each in faults if each.weight not in own] + [scale]


def _is_lost(folding: Folding, named: Container[str], free: LazyArrays) -> bool:
    """Whether an artifact has neither the kernel of a layer nor the scale and variance of its normalization.

    A constant weight proves nothing, and is ignored.
    """
    norm = folding.norm
    variables = (kernel_of(folding.layer), norm.moving_variance, *([norm.gamma] if norm.scale else []))
    own = {variable.path: _numpy(variable) for variable in variables}
    telling = {path: array for path, array in own.items() if np.ptp(array) > 0}
    return not any(path in named for path in own) and not matched_by_content(telling, {}, free)[0]


def stored_weights(
    model: Any, constants: Mapping[str, Array], foldings: Sequence[Folding] = (), *, may_be_cut: bool = True
) -> tuple[StoredWeights, list[WeightFault]]:
    """Returns how many of a model's weights an artifact with agreeing outputs stores, and the damaged weights.

    A weight that was folded, rounded or stored in another layout is not matched, and is not a fault. A partly changed
    weight is damaged. Memory use is limited to one weight, and to a few rows of its constant.

    Args:
        model: The Keras model.
        constants: The numeric constants of the artifact, by name.
        foldings: The normalizations that are folded into the weights of layers, see `recorded_foldings`.
        may_be_cut: Whether the artifact may omit rows of a table, as for inputs of one fixed size.
    """
    variables, layer_of = float_variables(model)
    stored, weights = LazyArrays.of(constants), as_stored(variables, foldings)
    named, packs = constants_by_name(weights, stored), packed_weights(model)
    taken, rest = set(named.values()), as_stored(variables, foldings, named)
    free = stored.only(name for name in stored if rest and name not in taken)
    same, unused = matched_by_content(rest, packs, free)
    found, faults = set[str](), list[WeightFault]()
    for path, weight in weights.items():
        is_named = path in named
        forms = [packs[path], weight] if path in packs else [weight]
        known = named.get(path) or same.get(path)
        if known and any(is_stored_in(form, stored.pieces(known)) for form in forms):
            found.add(path)
            continue
        names = [known] if known else [name for size in {form.size for form in forms} for name in unused.get(size, ())]
        pair = _stored_pair(forms, map(stored.__getitem__, names), is_named)
        if pair is None:
            if not may_be_cut and (cut := _cut(weight, stored, named.get(path), free)) is not None:
                found.add(path)
                faults.append(WeightFault(layer_of[path], path, cut, is_certain=True, is_named=is_named))
            continue
        found.add(path)
        if not is_stored_as(*pair) and (change := find_change(*pair)) is not None:
            faults.append(WeightFault(layer_of[path], path, change, is_certain=True, is_named=is_named))
    return counted_weights(variables, found, foldings), faults


def counted_weights(variables: Mapping[str, Any], found: Set[str], foldings: Iterable[Folding]) -> StoredWeights:
    """Returns the number of matched weights, including weights that are folded into a matched one."""
    every = set(found)
    for folding in foldings:
        every |= folding.gone if {kernel_of(folding.layer).path, folding.bias_owner.path} <= every else set()
    sizes = {path: int(np.prod(v.shape)) * _numpy(v).itemsize for path, v in variables.items()}
    return StoredWeights(len(sizes), len(every), sum(sizes.values()), sum(sizes[path] for path in every))


def _cut(weight: Array, constants: LazyArrays, name: str | None, free: Iterable[str]) -> Change | None:
    """Returns the change if a constant has only the first rows of a weight, but most of them; else None."""
    if weight.ndim < 2:
        return None
    for each in [name] if name is not None else free:
        constant = constants[each]
        is_part = constant.ndim == weight.ndim and constant.shape[1:] == weight.shape[1:]
        is_most = is_part and len(weight) // 2 < len(constant) < len(weight)
        if is_most and is_stored_as(weight[: len(constant)], constant):
            text = "It has only the first {rows:,} of {all:,} rows."
            return Change(Cause.OTHER_SHAPE, text, {"rows": len(constant)}, {"all": len(weight)})
    return None


def _stored_pair(forms: Sequence[Array], constants: Iterable[Array], is_named: bool) -> tuple[Array, Array] | None:
    """Returns a weight and its constant, equal in at least most values, in equal layouts; None without one."""
    for constant in constants:
        fitting = [form for form in forms if form.size == constant.size]  # empty for folded weights
        pairs = [(form, turned) for form in fitting for turned in forms_of(constant, form.shape)]
        same = (pair for pair in pairs if is_stored_as(*pair))
        in_part = (pair for pair in pairs if pair[0].dtype == pair[1].dtype and differs_in_part(*pair, is_named))
        found = next(itertools.chain(same, in_part), None)
        if found is not None:
            return found
    return None


def float_variables(model: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the float weights, and the path of the innermost layer that owns each, both by path."""
    variables = {v.path: v for v in model.weights if _is_float(v)}
    # Inner layers come after enclosing layers and override them.
    owners = {id(v): path for path, layer in layer_paths(model) for v in getattr(layer, "variables", ())}
    layer_of = {path: owners.get(id(variable), "") for path, variable in variables.items()}
    for path, captured in captured_arrays(model):
        variables[captured.path], layer_of[captured.path] = captured, path
    return variables, layer_of


def constants_by_name(variables: Mapping[str, Any], constants: Iterable[str]) -> dict[str, str]:
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


def packed_weights(model: Any) -> Arrays:
    """Returns the weights of recurrent layers in the form of ONNX's operators, by the path of the variable."""
    cells = {id(cell): cell for _, layer in layer_paths(model) if (cell := getattr(layer, "cell", None)) is not None}
    return {
        getattr(cell, name).path: array
        for cell in cells.values()
        if type(cell).__name__ in RECURRENT_OPERATORS and cell.built
        for name, array in packed_cell(cell).items()
        if getattr(cell, name) is not None
    }


def _change(path: str, weights: Mapping[str, Array], actual: Array) -> Change | None:
    found = find_change(weights[path], actual)
    if found is None or found.cause not in UNEXPLAINED:
        return found
    for other, weight in weights.items():
        is_alike = other != path and weight.shape == actual.shape and actual.size > 1
        if is_alike and np.array_equal(weight, actual):
            return Change(Cause.ANOTHER_WEIGHT, "It has the values of {other!r}.", {"other": other})
    return found


def _is_float(variable: Any) -> bool:
    import keras

    return "float" in keras.backend.standardize_dtype(variable.dtype)


def _numpy(variable: Any) -> Array:
    """Returns a weight as an array; on TensorFlow without a copy, since a copy of a large one may not fit."""
    import keras

    if isinstance(variable, CapturedArray):
        return variable.value
    if keras.backend.backend() == "tensorflow":
        return np.asarray(keras.ops.stop_gradient(variable.value))
    array: Array = keras.ops.convert_to_numpy(variable.value)
    return array
