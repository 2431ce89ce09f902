"""Finds the decisions in a graph: comparisons, bins, casts and table reads after simple arithmetic."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.model.watch.operator_sets import (
    ARITHMETIC,
    AT_ZERO,
    BINS,
    COMPARISONS,
    DIVISIONS,
    EXACT,
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
from keras_pe.export.model.watch.symbolic_trace import operators_before

_NATURAL = (-2.0, 0.0, 2.0)  # the inputs of a network are usually near these values

_MOST_SITES = 256
_MOST_PRODUCTS = 2**22  # multiplications for one row; the search for borders computes some thousand rows
_USUAL = 16  # size of a dimension without a fixed size, to count multiplications


@dataclass
class Site:
    """A decision of a graph.

    Attributes:
        tensor: A tensor that is constant between two thresholds of the input.
        kind: "direct" if the decision compares the input itself, and "derived" if it compares a value computed from
            it. "stepped" if the number of thresholds has no limit, as for rounding. "weighted" after products with
            weights, and "unsearched" for steps there, which are too many.
        compared: The tensors that the decision compares; none for an unknown operator, which may decide elsewhere.
    """

    tensor: Any
    kind: str
    compared: Sequence[Any] = ()


@dataclass
class Path:
    """The floats from the inputs to the tensors that a decision compares.

    Attributes:
        floats: The tensors by name.
        is_exact: Whether every operator on the path has the exact result if the result is short.
    """

    floats: dict[str, Any]
    is_exact: bool


@dataclass
class Limit:
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
class Reached:
    """The tensors, decisions and limits that simple arithmetic computes from inputs.

    Attributes:
        sources: The inputs that a tensor is computed from, by its name.
        direct: The tensors that hold values of an input unchanged.
        weighted: The tensors that are computed with products of weights.
        multiplications: The number of multiplications for one row.
        sites: The decisions.
        limits: The limits of the values.
        sized: The inputs whose integers may be the size of a tensor.
        scrambled: The inputs whose bits are mixed, as in a generator of random numbers. Near values have unrelated
            results there, so no step before has a threshold worth trying.
    """

    sources: dict[str, set[str]] = field(default_factory=dict)
    direct: set[str] = field(default_factory=set)
    weighted: set[str] = field(default_factory=set)
    multiplications: int = 0
    sites: list[Site] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    sized: set[str] = field(default_factory=set)
    scrambled: set[str] = field(default_factory=set)


def find_sites(graph: Any, inputs: Mapping[str, Any]) -> Reached:
    """Follows the inputs through a `tf.Graph`, as far as its operators are moves and simple arithmetic."""
    import tensorflow as tf

    found = Reached()
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
        if operator.type == "BitwiseXor" and all(tf.get_static_value(tensor) is None for tensor in operator.inputs):
            found.scrambled |= set().union(*(found.sources[tensor.name] for tensor in read))
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
    found.sites = [each for each in found.sites if each.kind != "stepped" or not _is_scrambled(each, found)]
    return found


def path_to(site: Site, found: Reached) -> Path:
    """Returns the path from the inputs to the tensors that a decision compares."""
    operators = [each for each in operators_before(site.compared) if any(t.name in found.sources for t in each.outputs)]
    floats = {tensor.name: tensor for each in operators for tensor in each.outputs if tensor.dtype.is_floating}
    return Path(floats, all(operator.type in EXACT or not operator.inputs for operator in operators))


def _among(tensor: Any, tensors: Sequence[Any]) -> bool:
    return any(each is tensor or each.name == tensor.name for each in tensors)


def _whole(found: Reached, read: Sequence[Any]) -> set[str]:
    """Returns the inputs that tensors of integers are computed from."""
    return {name for tensor in read if tensor.dtype.is_integer for name in found.sources[tensor.name]}


def _is_scrambled(site: Site, found: Reached) -> bool:
    sources = [found.sources.get(tensor.name, set()) for tensor in site.compared]
    return set().union(*sources) <= found.scrambled


def _is_cheap_product(operator: Any, found: Reached) -> bool:
    """Whether an operator multiplies values by weights, and the multiplications so far are few. They are counted."""
    if operator.type not in PRODUCTS or operator.inputs[1].name in found.sources:
        return False
    weights, result = operator.inputs[1].shape, operator.outputs[0].shape
    if not weights.is_fully_defined() or not weights.rank or result.rank is None:
        return False
    computed = np.prod([_USUAL if size is None else size for size in result.as_list()[1:]])
    found.multiplications += int(np.prod(weights.as_list()) // max(1, weights[-1]) * computed)
    return found.multiplications <= _MOST_PRODUCTS


def _pass_on(operator: Any, values: Sequence[Any], found: Reached, *, is_direct: bool) -> None:
    sources = set().union(*(found.sources.get(tensor.name, set()) for tensor in values))
    keeps = is_direct and all(tensor.name in found.direct for tensor in values if tensor.name in found.sources)
    is_weighted = any(tensor.name in found.weighted for tensor in values)
    for tensor in operator.outputs:
        found.sources[tensor.name] = set(sources)
        if is_weighted:
            found.weighted.add(tensor.name)
        if keeps:
            found.direct.add(tensor.name)


def _sites(operator: Any, read: Sequence[Any], found: Reached) -> Iterator[Site]:
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
        yield from (Site(each, kind, given) for each in (one < other, one > other))
    elif operator.type in BINS:
        yield Site(operator.outputs[0], kind, given)
    elif is_weighted and operator.type not in STEPS | {"Sign"}:
        return  # other decisions there hardly change the result, or there are too many of them
    elif operator.type in ("Maximum", "Minimum"):
        yield Site(given[0] < given[1], kind, given)
    elif operator.type in AT_ZERO:
        yield Site(given[0] > 0, "unsearched" if is_weighted else kind, given)
        if operator.type == "Relu6":
            yield Site(given[0] > 6, kind, given)
    elif operator.type in STEPS:
        yield Site(operator.outputs[0], "unsearched" if is_weighted else "stepped", given)
    elif operator.type in DIVISIONS:
        quotient = given[0] / given[1] if given[0].dtype.is_floating else given[0]
        found.sources[quotient.name] = found.sources[read[0].name]
        yield Site(tf.math.floordiv(*given), "stepped", (quotient,))
    elif operator.type == "Cast" and given[0].dtype.is_floating and operator.outputs[0].dtype.is_integer:
        yield Site(operator.outputs[0], "stepped", given)
    elif operator.type == "OneHot":
        yield Site(tf.clip_by_value(given[0], -1, tf.cast(given[1], given[0].dtype)), kind, given[:1])
    elif operator.type in READS and not is_direct:
        yield Site(given[1], "stepped", given[1:2])
    elif operator.type not in KNOWN:
        derived = (tensor for tensor in read if tensor.dtype.is_floating and tensor.name not in found.direct)
        yield from (Site(tensor > value, "derived") for tensor in derived for value in _NATURAL)


def _limits(operator: Any) -> Iterator[Limit]:
    """Yields the limits on the values of an operator."""
    if operator.type == "Cast" and operator.inputs[0].dtype.is_floating and operator.outputs[0].dtype.is_integer:
        dtype = operator.outputs[0].dtype
        yield Limit(_wide(operator.inputs[0]), dtype.min, dtype.max + 1, dtype.name)
    elif operator.type in READS and (rows := table_rows(operator)) is not None:
        yield Limit(_wide(operator.inputs[1]), 0, rows)


def _wide(tensor: Any) -> Any:
    import tensorflow as tf

    return tf.cast(tensor, tf.float64)
