"""The decisions of a model by its inputs: comparisons, bins, casts and table reads after simple arithmetic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.model.watch.nested_arguments import FlatModel
from keras_pe.export.model.watch.operator_sets import (
    ARITHMETIC,
    AT_ZERO,
    BINS,
    COMPARISONS,
    DIVISIONS,
    JOINING,
    KNOWN,
    MOVING,
    PARTING,
    PRODUCTS,
    READS,
    STEPS,
    is_widening,
    table_rows,
    values_of,
)
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.model.watch.symbolic_trace import traced_flat
from keras_pe.export.results import Array

_NATURAL = (-2.0, 0.0, 2.0)  # the inputs of a network are usually near these values

_MOST_SITES = 256
_MOST_PRODUCTS = 2**22  # multiplications for one row; the search for borders computes some thousand rows
_USUAL = 16  # size of a dimension without a fixed size, to count multiplications

KINDS = ("direct", "derived", "stepped", "weighted")


@dataclass
class _Site:
    """A decision of a graph.

    Attributes:
        tensor: A tensor that is constant between two thresholds of the input.
        kind: "direct" if the decision compares the input itself, and "derived" if it compares a value computed from
            it. "stepped" if the number of thresholds has no limit, as for rounding. "weighted" after products with
            weights.
    """

    tensor: Any
    kind: str


@dataclass
class _Limit:
    """The values that an operator accepts: whole numbers of an integer type, or rows of a table.

    Attributes:
        tensor: The input of the operator.
        low: The least valid value.
        high: The first invalid value above `low`.
        dtype: The integer type of the cast; empty for the rows of a table.
    """

    tensor: Any
    low: int
    high: int
    dtype: str = ""


@dataclass
class _Reached:
    """The tensors, decisions and limits that simple arithmetic computes from inputs.

    Attributes:
        sources: The inputs that a tensor is computed from, by its name.
        direct: The tensors that hold values of an input unchanged.
        weighted: The tensors that are computed with products of weights.
        multiplications: The number of multiplications for one row.
        sites: The decisions.
        limits: The limits of the values.
        sized: The inputs whose integers may be the size of a tensor.
    """

    sources: dict[str, set[str]] = field(default_factory=dict)
    direct: set[str] = field(default_factory=set)
    weighted: set[str] = field(default_factory=set)
    multiplications: int = 0
    sites: list[_Site] = field(default_factory=list)
    limits: list[_Limit] = field(default_factory=list)
    sized: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Answer:
    """The decisions of a model for one set of inputs.

    Attributes:
        decisions: The decisions of each of `KINDS`: a row for each row of the batch, or one row.
        fits: Whether the casts and tables accept all values, for each row.
    """

    decisions: Mapping[str, Array]
    fits: Array


class Decisions:
    """Computes the decisions of a model for given inputs. The model is traced once.

    Attributes:
        sized: The names of integer inputs whose values may be the size of a tensor or the number of steps of a loop.
        casts: The integer types that floats are cast to.
    """

    def __init__(self, model: FlatModel) -> None:
        """Traces the model.

        Args:
            model: The model, on TensorFlow.

        Raises:
            Exception: Whatever the layers raise if the model cannot be traced.
        """
        import tensorflow as tf

        found = _Reached()

        def flat(*inputs: Any) -> list[Any]:
            nonlocal found
            found = _Reached()
            with state_left_alone():
                model.outputs(inputs)
            _walk(inputs[0].graph, dict(zip(model.names, inputs, strict=True)), found)
            fits = [(each.tensor >= each.low) & (each.tensor < each.high) for each in found.limits]
            return [tf.cast(each, tf.float64) for each in (*(site.tensor for site in found.sites), *fits)]

        self._function = traced_flat(model, flat)
        self._names = list(model.names)
        self._sites = found.sites
        self._limits = found.limits
        self.sized = frozenset(found.sized)
        self.casts = tuple(dict.fromkeys(each.dtype for each in found.limits if each.dtype))

    @property
    def is_any(self) -> bool:
        """Whether there is a decision."""
        return bool(self._sites)

    def __call__(self, inputs: Mapping[str, Any], rows: int) -> Answer:
        """Returns the decisions.

        Args:
            inputs: An array for each input, of one batch.
            rows: The number of rows in the answer.
        """
        values = [np.asarray(tensor) for tensor in self._function(*(inputs[name] for name in self._names))]
        split = len(self._sites)
        sites = list(zip(self._sites, values, strict=False))

        def of(kind: str) -> Array:
            return _in_rows([value for site, value in sites if site.kind == kind], rows)

        return Answer({kind: of(kind) for kind in KINDS}, np.asarray(_in_rows(values[split:], rows).all(axis=1)))

    def overflowing(self, inputs: Mapping[str, Any]) -> list[str]:
        """Returns the integer types that cannot hold a value that is cast to them, for one set of inputs."""
        values = [np.asarray(tensor) for tensor in self._function(*(inputs[name] for name in self._names))]
        limits = zip(self._limits, values[len(self._sites) :], strict=True)
        return list(dict.fromkeys(limit.dtype for limit, fits in limits if limit.dtype and not fits.all()))


def _in_rows(values: Sequence[Array], rows: int) -> Array:
    """Returns decisions side by side, those that do not split into rows left out."""
    split = [np.nan_to_num(each).reshape(rows, -1) for each in values if each.size and each.size % rows == 0]
    return np.concatenate([np.zeros((rows, 0)), *split], axis=1)


def _walk(graph: Any, inputs: Mapping[str, Any], found: _Reached) -> None:
    """Follows the inputs through a `tf.Graph`, as far as its operators are moves and simple arithmetic."""
    for name, tensor in inputs.items():
        found.sources[tensor.name] = {name}
        found.direct.add(tensor.name)
    for operator in graph.get_operations():  # in the order in which they were made
        read = [tensor for tensor in operator.inputs if tensor.name in found.sources]
        if not read:
            continue
        values = values_of(operator)
        if any(tensor.name in found.sources for tensor in operator.inputs if not _among(tensor, values)):
            found.sized |= _whole(found, read)
        if not any(_among(tensor, values) for tensor in read):
            continue
        found.sites += _sites(operator, read, found) if len(found.sites) < _MOST_SITES else ()
        found.limits += _limits(operator)
        if operator.type in MOVING or operator.type in JOINING or operator.type in PARTING:
            _pass_on(operator, values, found, is_direct=True)
        elif operator.type in ARITHMETIC:
            _pass_on(operator, values, found, is_direct=is_widening(operator))
        elif _is_cheap_product(operator, found) or (operator.type == "Softmax" and values[0].name in found.weighted):
            _pass_on(operator, values, found, is_direct=False)
            found.weighted |= {tensor.name for tensor in operator.outputs}
        elif operator.type not in KNOWN | {"OneHot"}:
            found.sized |= _whole(found, read)


def _among(tensor: Any, tensors: Sequence[Any]) -> bool:
    return any(each is tensor or each.name == tensor.name for each in tensors)


def _whole(found: _Reached, read: Sequence[Any]) -> set[str]:
    """Returns the inputs that tensors of integers are computed from."""
    return {name for tensor in read if tensor.dtype.is_integer for name in found.sources[tensor.name]}


def _is_cheap_product(operator: Any, found: _Reached) -> bool:
    """Whether an operator multiplies values by weights, and the multiplications so far are few. They are counted."""
    if operator.type not in PRODUCTS or operator.inputs[1].name in found.sources:
        return False
    weights, result = operator.inputs[1].shape, operator.outputs[0].shape
    if not weights.is_fully_defined() or not weights.rank or result.rank is None:
        return False
    computed = np.prod([_USUAL if size is None else size for size in result.as_list()[1:]])
    found.multiplications += int(np.prod(weights.as_list()) // max(1, weights[-1]) * computed)
    return found.multiplications <= _MOST_PRODUCTS


def _pass_on(operator: Any, values: Sequence[Any], found: _Reached, *, is_direct: bool) -> None:
    sources = set().union(*(found.sources.get(tensor.name, set()) for tensor in values))
    keeps = is_direct and all(tensor.name in found.direct for tensor in values if tensor.name in found.sources)
    is_weighted = any(tensor.name in found.weighted for tensor in values)
    for tensor in operator.outputs:
        found.sources[tensor.name] = set(sources)
        if is_weighted:
            found.weighted.add(tensor.name)
        if keeps:
            found.direct.add(tensor.name)


def _sites(operator: Any, read: Sequence[Any], found: _Reached) -> Iterator[_Site]:
    """Yields the decisions of an operator."""
    import tensorflow as tf

    is_weighted = any(tensor.name in found.weighted for tensor in read)
    is_direct = all(tensor.name in found.direct for tensor in read)
    kind = "weighted" if is_weighted else "direct" if is_direct else "derived"
    given = list(operator.inputs)
    if any(tensor.dtype.is_complex for tensor in given):
        return
    if given[-1].dtype in (tf.string, tf.bool, tf.resource) and operator.type not in ("LowerBound", "UpperBound"):
        return
    if operator.type in COMPARISONS:
        one, other = given
        yield from (_Site(each, kind) for each in (one < other, one > other))
    elif operator.type in BINS:
        yield _Site(operator.outputs[0], kind)
    elif is_weighted:
        return  # other decisions there hardly change the result, or there are too many of them
    elif operator.type in ("Maximum", "Minimum"):
        yield _Site(given[0] < given[1], kind)
    elif operator.type in AT_ZERO:
        yield _Site(given[0] > 0, kind)
        if operator.type == "Relu6":
            yield _Site(given[0] > 6, kind)
    elif operator.type in STEPS:
        yield _Site(operator.outputs[0], "stepped")
    elif operator.type in DIVISIONS:
        yield _Site(tf.math.floordiv(*given), "stepped")
    elif operator.type == "Cast" and given[0].dtype.is_floating and operator.outputs[0].dtype.is_integer:
        yield _Site(operator.outputs[0], "stepped")
    elif operator.type == "OneHot":
        yield _Site(tf.clip_by_value(given[0], -1, tf.cast(given[1], given[0].dtype)), kind)
    elif operator.type in READS and not is_direct:
        yield _Site(given[1], "stepped")
    elif operator.type not in KNOWN:
        derived = (tensor for tensor in read if tensor.dtype.is_floating and tensor.name not in found.direct)
        yield from (_Site(tensor > value, "derived") for tensor in derived for value in _NATURAL)


def _limits(operator: Any) -> Iterator[_Limit]:
    """Yields the limits on the values of an operator."""
    if operator.type == "Cast" and operator.inputs[0].dtype.is_floating and operator.outputs[0].dtype.is_integer:
        dtype = operator.outputs[0].dtype
        yield _Limit(_wide(operator.inputs[0]), dtype.min, dtype.max + 1, dtype.name)
    elif operator.type in READS and (rows := table_rows(operator)) is not None:
        yield _Limit(_wide(operator.inputs[1]), 0, rows)


def _wide(tensor: Any) -> Any:
    import tensorflow as tf

    return tf.cast(tensor, tf.float64)
