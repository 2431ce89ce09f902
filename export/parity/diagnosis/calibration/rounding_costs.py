"""Measures each rounded tensor of a file: its floats, its range, and the change of the outputs by rounding it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.model.watch.layer_paths import is_within
from keras_pe.export.results import Array, Cause, Finding, OtherValue
from keras_pe.export.runtimes.runtime import Arrays

if TYPE_CHECKING:
    from keras_pe.export.runtimes.float_twin import FloatTwin, RoundedTensor

_SHARE, _CHANGE = 0.1, 0.1**2  # least share of the squared changes, and least squared change, that matters
_MOST_VALUES = 2**21  # values of a tensor that are kept over all cases
_LEAST_SIZE = 1e-4  # least mean square of a channel, relative to that of all, that its changes are measured by
_BROKEN = 1e6  # the largest relative change of a value, such as of one that becomes infinite
_LIKE = 0.1  # largest distance from a layer's output, relative to its values, at which a tensor has that output
_SAME = 0.01  # largest distance that does not tell two tensors apart
_FOLDED = frozenset({"", "Add", "BatchNormalization", "Conv", "ConvTranspose", "Gemm", "MatMul", "Mul", "Sub", "Sum"})
"""The operators into whose rounding a quantizer folds a following activation."""


@dataclass(frozen=True)
class RoundingCost:
    """A rounded tensor with its values in some cases.

    Attributes:
        tensor: The tensor.
        cases: The floats of each case, after an activation that the range replaces.
        given: The tensors that the operator before it takes, in the same cases; those that are known.
        share: Its share of the squared changes of the outputs, each tensor rounded alone.
        change: The squared change of the outputs in the mean of the cases, if it is rounded alone.
    """

    tensor: "RoundedTensor"
    cases: tuple[Array, ...]
    given: tuple[Mapping[str, Array], ...] = ()
    share: float = 0.0
    change: float = 0.0

    @cached_property
    def values(self) -> Array:
        """The floats of all cases, in one dimension."""
        return np.concatenate([each.ravel() for each in self.cases]).astype(np.float64)

    @cached_property
    def span(self) -> float:
        """The length of the shortest range that has 0 and all values."""
        return max(float(self.values.max(initial=0.0)), 0.0) - min(float(self.values.min(initial=0.0)), 0.0)

    @cached_property
    def step(self) -> float:
        """The largest step. If the file computes it at each call, the step of the largest case."""
        if self.tensor.scale is not None:
            return float(np.abs(self.tensor.scale).max())
        return self.span / 255

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest number of the range."""
        if self.tensor.limits is None:
            return float(self.values.min(initial=0.0)), float(self.values.max(initial=0.0))
        return float(self.tensor.limits[0].min()), float(self.tensor.limits[1].max())

    @property
    def is_fixed(self) -> bool:
        """Whether the file has one scale for all calls and channels."""
        return self.tensor.scale is not None and self.tensor.scale.size == 1

    @property
    def name(self) -> str:
        """The layer; the name of the tensor if the file names no layer."""
        return self.tensor.layer or self.tensor.name

    @property
    def matters(self) -> bool:
        """Whether it causes a tenth of the change of the outputs, or alone changes the outputs by a tenth."""
        return self.share >= _SHARE or self.change >= _CHANGE

    def finding(self, cause: Cause, text: str, **numbers: float) -> Finding:
        """Returns a finding about the tensor, with its share of the change of the outputs."""
        where = f"Tensor {self.tensor.name!r}: " if self.tensor.name != self.name else ""
        share = f" Rounding this tensor alone causes {self.share:.0%} of the change of the outputs."
        values = tuple(OtherValue(name, None, value) for name, value in numbers.items())
        return Finding(cause, f"{where}{text}{share}", self.name, parameters=values)

    def round_values(self, values: Array) -> Array:
        """Returns values as the integers of the file have them, with the largest step."""
        low, high = self.limits
        found: Array = np.clip(np.rint(values / self.step) * self.step, low, high) if self.step else values
        return found


@dataclass(frozen=True)
class RoundingMeasurement:
    """All rounded tensors of a file in some cases.

    Attributes:
        costs: The tensors, in the order of computation.
        floats: The outputs of each case if no tensor is rounded.
        rounded: The outputs of each case if all tensors are rounded, as in the file.
        cut: The limits of the activations that ranges replace, by key.
        inputs: The inputs of the first case, by the file's names.
        batch_shares: For each case, the change of a row by the other rows of its batch, in changes by rounding. Empty
            without scales that are computed at each call.
        position_layers: The paths of the model's layers of positions, if they are known.
    """

    costs: tuple[RoundingCost, ...]
    floats: tuple[Arrays, ...]
    rounded: tuple[Arrays, ...]
    cut: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    batch_shares: tuple[float, ...] = ()
    inputs: Mapping[str, Array] = field(default_factory=dict)
    position_layers: Collection[str] = ()

    def is_position(self, layer: str) -> bool:
        """Whether a layer computes positions, or is within one that does."""
        return any(is_within(layer, each) for each in self.position_layers)


def measure_rounding(
    path: Path, cases: Sequence[Mapping[str, Array]], layer_outputs: Sequence[Array] = (), layers: Iterable[str] = ()
) -> RoundingMeasurement:
    """Returns the rounded tensors of an ONNX or LiteRT file in some cases.

    Args:
        path: The file.
        cases: The inputs of each case, by the file's names.
        layer_outputs: The outputs of the model's layers in the first case. They tell an activation, which a quantizer
            replaced by the range, from a range that cuts values.
        layers: The paths of the model's layers, if they are known.

    Raises:
        NothingRoundedError: If the file rounds no computed tensor.
        ValueError: If it has an operator of integers without a form in floats.
    """
    twin = _open_twin(path, layers)
    cut = _folded_activations(twin, cases[0], layer_outputs)
    every = [each.key for each in twin.tensors]
    found = [twin.run(case, (), cut, with_tensors=True) for case in cases]
    floats = tuple(outputs for outputs, _ in found)
    rounded = tuple(twin.run(case, every, cut)[0] for case in cases)
    sums = np.array([
        sum(squared_change(base, twin.run(case, {key}, cut)[0]) for case, base in zip(cases, floats, strict=True))
        for key in every
    ])  # fmt: skip
    shares = sums / sums.sum() if sums.sum() else sums
    limited = [
        {key: np.clip(tensors[key], *cut[key]) if key in cut else tensors[key] for key in every} for _, tensors in found
    ]
    most = max(1, _MOST_VALUES // len(cases))
    costs = tuple(
        RoundingCost(
            each,
            tuple(values[each.key] for values in limited if values[each.key].size <= most),
            tuple({name: tensors[name] for name in each.given if name in tensors} for _, tensors in found),
            float(share),
            float(change),
        )
        for each, share, change in zip(twin.tensors, shares, sums / len(cases), strict=True)
    )
    costs = tuple(each for each in costs if each.cases and all(np.isfinite(one).all() for one in each.cases))
    dynamic = [each.key for each in twin.tensors if each.scale is None]
    batch = tuple(_batch_share(twin, case, every, cut) for case in cases) if dynamic else ()
    return RoundingMeasurement(costs, floats, rounded, cut, batch, dict(cases[0]))


def _open_twin(path: Path, layers: Iterable[str]) -> "FloatTwin":
    if Format.detect(path) is Format.LITERT:
        from keras_pe.export.runtimes.litert_float_twin import LiteRTFloatTwin

        return LiteRTFloatTwin(path, layers)
    from keras_pe.export.runtimes.onnx_float_twin import OnnxFloatTwin

    return OnnxFloatTwin(path)


def squared_change(outputs: Arrays, others: Arrays) -> float:
    """Returns the sum of squared changes of outputs of floats, relative to the values of each index of the last axis.

    Args:
        outputs: The outputs that the changes are relative to.
        others: The changed outputs. Missing ones, and those of another shape, do not count.
    """
    total = 0.0
    for name, array in outputs.items():
        other = others.get(name)
        if array.dtype.kind != "f" or not array.size or other is None or other.shape != array.shape:
            continue
        own = array.astype(np.float64).reshape(-1, array.shape[-1] if array.ndim > 1 else 1)
        sizes = np.mean(own**2, axis=0)
        sizes = np.maximum(sizes, _LEAST_SIZE * sizes.mean())
        wide = other.astype(np.float64).reshape(own.shape)
        with np.errstate(invalid="ignore"):  # equal infinities have no difference
            change = np.where(wide == own, 0.0, (wide - own) ** 2)
        relative = np.nan_to_num(change / np.where(sizes > 0, sizes, 1.0), nan=_BROKEN, posinf=_BROKEN)
        total += float(np.mean(np.minimum(relative, _BROKEN)))
    return total


def _batch_share(
    twin: "FloatTwin", case: Mapping[str, Array], keys: Sequence[str], cut: Mapping[str, tuple[float, float]]
) -> float:
    """Returns the largest change of a row by its batch, relative to the change of a row by rounding alone.

    That change is the row's own, and at least the median of all rows.
    """
    sizes = {array.shape[0] for array in case.values() if array.ndim}
    if len(sizes) != 1 or (rows := sizes.pop()) < 2 or any(not array.ndim for array in case.values()):
        return 0.0
    together, plain = twin.run(case, keys, cut)[0], twin.run(case, (), cut)[0]
    changes, errors = [], []
    for row in range(min(rows, 8)):
        alone = twin.run({name: array[row : row + 1] for name, array in case.items()}, keys, cut)[0]
        own = {name: array[row : row + 1] for name, array in together.items() if array.shape[:1] == (rows,)}
        right = {name: plain[name][row : row + 1] for name in own}
        if not own:
            return 0.0
        changes.append(squared_change(own, alone))
        errors.append(squared_change(right, alone))
    usual = np.maximum(errors, np.median(errors))
    return float(np.sqrt(np.max(np.array(changes)[usual > 0] / usual[usual > 0], initial=0.0)))


def _folded_activations(
    twin: "FloatTwin", case: Mapping[str, Array], layer_outputs: Sequence[Array]
) -> dict[str, tuple[float, float]]:
    """Returns the limits of activations that ranges replace, such as (0, inf) for ReLU, by key."""
    known = [np.sort(array.astype(np.float64), axis=None) for array in layer_outputs if array.dtype.kind == "f"]
    ranges = {
        each.key: float(each.limits[1].max())
        for each in twin.tensors
        if each.limits is not None and not each.limits[0].any() and each.operator in _FOLDED and each.operator
    }
    cut = dict.fromkeys(ranges, (0.0, np.inf))
    for key in ranges:
        values = np.sort(twin.run(case, (), {**cut, key: (-np.inf, np.inf)}, with_tensors=True)[1][key], axis=None)
        if values.min(initial=0.0) >= 0:
            del cut[key]
            continue
        forms = {(0.0, np.inf): np.maximum(values, 0), (0.0, ranges[key]): np.clip(values, 0, ranges[key])}
        alike = [array for array in known if array.size == values.size]
        distances = {ends: _nearest(form, alike) for ends, form in {(-np.inf, np.inf): values, **forms}.items()}
        plain = distances.pop((-np.inf, np.inf))
        best = min(distances, key=lambda ends: distances[ends])
        if distances[best] <= max(2 * plain, _SAME) or plain > _LIKE >= distances[best]:
            cut[key] = best
        elif plain <= _LIKE:
            del cut[key]  # else the model shows no such tensor, so that an activation is more likely
    return cut


def _nearest(values: Array, known: Sequence[Array]) -> float:
    """Returns the least distance of sorted values from sorted outputs, relative to these."""
    return min((float(np.sqrt(np.mean((values - one) ** 2) / (np.mean(one**2) or 1.0))) for one in known), default=1.0)
