"""The sizes that an artifact fixes if Keras cannot trace the model with free sizes, and the signature with them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from keras_pe.export.model.signature.fixed_sizes import FixedSize, FixedSizes, Origin
from keras_pe.export.model.signature.model_signature import find_signature
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.signature.subclassed_signature import recorded_shapes
from keras_pe.export.model.sizes.dimensions import Kind, named_sizes
from keras_pe.export.model.watch.nested_arguments import map_leaves


def sizes_to_fix(model: Any, signature: Signature) -> dict[str, FixedSize]:
    """Returns the size at which each dynamic dimension may be fixed, by name.

    The first known size applies: the caller's size, the size in the examples, the size in the recorded call, or a valid
    size. A dimension with several sizes from the caller or the examples is omitted.

    Args:
        model: The Keras model.
        signature: The model's signature.
    """
    declared = [spec.shape for spec in signature.inputs]
    shapes = ([np.shape(each[spec.name]) for spec in signature.inputs] for each in signature.values.examples)
    examples = _group_sizes(pair for each in shapes for pair in named_sizes(declared, each))
    called = _group_sizes(named_sizes(declared, recorded_shapes(model)))
    found = {}
    for name, own in signature.dimensions.items():
        given, shown = set(own.sizes.given), examples.get(name, set())
        if len(given) > 1 or len(shown) > 1:
            continue
        noted = {size for size in called.get(name, ()) if size in own.sizes}
        if given:
            found[name] = FixedSize(name, given.pop(), Origin.EXAMPLE if shown else Origin.GIVEN)
        elif shown:
            found[name] = FixedSize(name, shown.pop(), Origin.EXAMPLE)
        elif len(noted) == 1:
            found[name] = FixedSize(name, noted.pop(), Origin.CALLED)
        elif own.kind is Kind.BATCH and 1 in own.sizes:
            found[name] = FixedSize(name, 1, Origin.LEAST)
        else:
            found[name] = FixedSize(name, signature.sizes[name], Origin.FIRST)
    return found


def names_to_fix(signature: Signature, is_traced: Callable[[Collection[str]], bool]) -> set[str]:
    """Returns the names of the dimensions to fix. They are as few as possible, and lengths rather than batches.

    Args:
        signature: The signature of the model.
        is_traced: Returns whether Keras can trace the model with these dimensions fixed.

    Returns:
        The names; an empty set if Keras cannot trace the model even with all dimensions fixed.
    """
    batches = [name for name, own in signature.dimensions.items() if own.kind is Kind.BATCH]
    lengths = [name for name in signature.dimensions if name not in batches]
    for names in ({*lengths}, {*lengths, *batches}):
        if names and is_traced(names):
            for name in (*batches, *lengths):
                if name in names and len(names) > 1 and is_traced(names - {name}):
                    names = names - {name}
            return names
    return set()


def with_fixed_sizes(model: Any, signature: Signature, sizes: Iterable[FixedSize], cause: str = "") -> Signature:
    """Returns the signature with some dimensions fixed. The outputs are measured at the fixed sizes.

    Args:
        model: The Keras model.
        signature: The model's signature.
        sizes: The sizes to fix.
        cause: The reason why the sizes cannot be free, in one sentence; empty if the caller wants them fixed.

    Raises:
        ValueError: If the model cannot be called at these sizes.
    """
    before = () if signature.fixed_sizes is None else signature.fixed_sizes.sizes
    fixed = FixedSizes((*before, *sizes), cause=cause)
    cut = signature.fix_sizes(fixed.by_name)
    specs = {spec.name: spec for spec in cut.inputs}
    found = find_signature(
        model,
        map_leaves(signature.arguments, specs.__getitem__),
        sizes={name: own.sizes.given for name, own in cut.dimensions.items() if own.sizes.given},
        inputs=signature.values.examples,
        ranges=signature.values.ranges,
    )
    return replace(
        cut,
        outputs=found.outputs,
        sizes=found.sizes,
        dimensions=found.dimensions,
        values=replace(signature.values, filling=found.values.filling),
        fixed_sizes=fixed.with_inputs(cut.inputs),
    )


def _group_sizes(pairs: Iterable[tuple[str, int]]) -> dict[str, set[int]]:
    """Returns the sizes of each dimension."""
    found: dict[str, set[int]] = {}
    for name, size in pairs:
        found.setdefault(name, set()).add(size)
    return found
