"""Compares the artifact's weights with the model's, one by one. This finds most faults without running anything."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.stored_weights import Folding, kernel_of
from keras_pe.export.parity.diagnosis.foldings import folded_weights
from keras_pe.export.parity.diagnosis.relations import Change
from keras_pe.export.parity.diagnosis.relations.detection import UNEXPLAINED, find_change
from keras_pe.export.parity.diagnosis.weight_matching import differs_in_part, forms_of, is_stored_as
from keras_pe.export.parity.diagnosis.weight_pairs import WeightFault, WeightPairs, weight_values
from keras_pe.export.results import Array, Cause, StoredWeights


@dataclass(frozen=True)
class WeightComparison:
    """The weights that the artifact stores with other values, and the paths of equal weights."""

    faults: list[WeightFault]
    sound: frozenset[str]


def compare_weights(
    model: Any, constants: Mapping[str, Array], foldable: Iterable[Folding] = (), foldings: Sequence[Folding] = ()
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
    pairs = WeightPairs(model, constants, foldings)
    named, changed = pairs.named, folded_weights(foldings)[0]
    faults: dict[str, WeightFault | None] = {}
    for path, name in named.items():
        change = _change(path, pairs, pairs.constants[name])
        faults[path] = None if change is None else pairs.fault(path, change, is_folded=path in changed)
    is_complete = len(named) == len(pairs.weights)
    lost = [] if is_complete else [each for each in foldable if each not in foldings and _is_lost(each, pairs)]
    faults |= pairs.unnamed_faults([*foldings, *lost])
    found = [each for each in faults.values() if each is not None]
    for folding in (*foldings, *lost):
        found = _with_scale(found, folding, pairs)
    return WeightComparison(found, frozenset(path for path, fault in faults.items() if fault is None))


def _with_scale(faults: list[WeightFault], folding: Folding, pairs: WeightPairs) -> list[WeightFault]:
    """Returns the faults, with a kernel's fault moved to its folded normalization if each channel has another factor.

    The scale or the variance of the normalization then differs, and the change of the bias follows from it.
    """
    own = {variable.path for variable in (*folding.layer.variables, *folding.norm.variables)}
    kernel = next((each for each in faults if each.weight == kernel_of(folding.layer).path), None)
    if kernel is None or kernel.change.cause is not Cause.SCALED_VALUES or "axis" not in kernel.change.parameters:
        return faults
    scale = replace(kernel, layer=pairs.layer_of[folding.norm.moving_variance.path])
    return [each for each in faults if each.weight not in own] + [scale]


def _is_lost(folding: Folding, pairs: WeightPairs) -> bool:
    """Whether an artifact has neither the kernel of a layer nor the scale and variance of its normalization.

    A constant weight proves nothing, and is ignored.
    """
    norm = folding.norm
    variables = (kernel_of(folding.layer), norm.moving_variance, *([norm.gamma] if norm.scale else []))
    own = {variable.path: weight_values(variable) for variable in variables}
    telling = {path: array for path, array in own.items() if np.ptp(array) > 0}
    return not any(path in pairs.named for path in own) and not pairs.match(telling)[0]


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
    pairs = WeightPairs(model, constants, foldings)
    return pairs.count(_stored_changes(pairs, may_be_cut=may_be_cut))


def _stored_changes(pairs: WeightPairs, *, may_be_cut: bool) -> Iterator[tuple[str, Change | None]]:
    """Yields the weights that an artifact stores unchanged or changed in part, each with its change."""
    same, unused = pairs.match(pairs.fold(pairs.foldings, pairs.named))
    for path, weight in pairs.weights.items():
        forms = pairs.forms(path, weight)
        known = pairs.named.get(path) or same.get(path)
        if known and any(is_stored_as(form, pairs.constants.pieces(known)) for form in forms):
            yield path, None
            continue
        names = [known] if known else [name for size in {form.size for form in forms} for name in unused.get(size, ())]
        pair = _stored_pair(forms, map(pairs.constants.__getitem__, names), is_named=path in pairs.named)
        if pair is not None:
            yield path, None if is_stored_as(pair[0], [pair[1]]) else find_change(*pair)
        elif not may_be_cut and (cut := _cut(path, weight, pairs)) is not None:
            yield path, cut


def _cut(path: str, weight: Array, pairs: WeightPairs) -> Change | None:
    """Returns the change if a constant has only the first rows of a weight, but most of them; else None."""
    if weight.ndim < 2:
        return None
    for _, constant in pairs.candidates(path):
        is_most = constant.ndim == weight.ndim and len(weight) // 2 < len(constant) < len(weight)
        if is_most and is_stored_as(weight[: len(constant)], [constant]):
            text = "It has only the first {rows:,} of {all:,} rows."
            return Change(Cause.OTHER_SHAPE, text, {"rows": len(constant)}, {"all": len(weight)})
    return None


def _stored_pair(forms: Sequence[Array], constants: Iterable[Array], is_named: bool) -> tuple[Array, Array] | None:
    """Returns a weight and its constant, equal in at least most values, in equal layouts; None without one."""
    for constant in constants:
        fitting = [form for form in forms if form.size == constant.size]  # empty for folded weights
        pairs = [(form, turned) for form in fitting for turned in forms_of(constant, form.shape)]
        same = (pair for pair in pairs if is_stored_as(pair[0], [pair[1]]))
        in_part = (pair for pair in pairs if pair[0].dtype == pair[1].dtype and differs_in_part(*pair, is_named))
        found = next(itertools.chain(same, in_part), None)
        if found is not None:
            return found
    return None


def _change(path: str, pairs: WeightPairs, actual: Array) -> Change | None:
    found = find_change(pairs.weights[path], actual)
    if found is None or found.cause not in UNEXPLAINED or actual.size == 1:
        return found
    return pairs.another_weight(path, actual.shape, partial(np.array_equal, actual)) or found
