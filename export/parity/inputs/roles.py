"""Finds out what a Keras model's inputs are for, by watching which layers they reach unchanged."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from keras_pe.export.artifact import TensorInfo
from keras_pe.export.parity.inputs.sweep import Role
from keras_pe.export.runtimes.runtime import Array, Arrays, as_dtype

_REACH = 2**24  # positions beyond are refused by the encoding itself


def find_roles(inputs: tuple[TensorInfo, ...], run: Callable[[Arrays], Any]) -> dict[str, Role]:
    """Returns the roles of the inputs that reach an embedding or a position encoding.

    The model runs once, eagerly, on zeros and ones: a fair token id, position and start everywhere. Each input has a
    pattern of its own, by which it is recognised where it arrives.

    Args:
        inputs: What the model takes.
        run: Runs the model.
    """
    rng = np.random.default_rng(0)
    sizes: dict[str, int] = {}
    for spec in inputs:
        for dim in spec.shape:
            if isinstance(dim, str):
                sizes.setdefault(dim, 3 + 2 * len(sizes))
    shapes = {spec.name: tuple(sizes[d] if isinstance(d, str) else d for d in spec.shape) for spec in inputs}
    marks = {
        spec.name: rng.integers(0, 2, shapes[spec.name]).astype(as_dtype(spec.dtype))
        for spec in inputs
        if spec.dtype != "string"
    }
    if len(marks) < len(inputs):
        return {}  # texts are looked up, not embedded
    arrivals: list[tuple[Any, Role]] = []
    try:
        with _watching(arrivals):
            run(marks)
    except Exception:  # a model that refuses these shapes tells in the sweep why
        return {}
    roles: dict[str, Role] = {}
    for value, role in arrivals:
        for name, mark in marks.items():
            if _same(value, mark):
                roles[name] = _tighter(roles.get(name), role)
    return roles


@contextmanager
def _watching(arrivals: list[tuple[Any, Role]]) -> Iterator[None]:
    """Notes what reaches embeddings and position encodings while the context is open."""
    import keras

    from keras_pe.layers.base import PositionLayer

    embed, encode = keras.layers.Embedding.call, PositionLayer.call

    def watched_embed(layer: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        arrivals.append((inputs, Role("ids", 0, layer.input_dim)))
        return embed(layer, inputs, *args, **kwargs)

    def watched_encode(layer: Any, inputs: Any, positions: Any = None, start_index: Any = None) -> Any:
        bound = layer.max_length if isinstance(layer.max_length, int) else None
        low, high = (-_REACH, _REACH) if bound is None else (0, bound)
        arrivals.extend((value, Role("positions", low, high)) for value in _each(positions))
        arrivals.extend((value, Role("start", low, high)) for value in _each(start_index))
        return encode(layer, inputs, positions, start_index)

    with ExitStack() as stack:
        stack.enter_context(patch.object(keras.layers.Embedding, "call", watched_embed))
        stack.enter_context(patch.object(PositionLayer, "call", watched_encode))
        yield


def _each(value: Any) -> list[Any]:
    values = value if isinstance(value, list | tuple) else [value]
    return [each for each in values if hasattr(each, "shape")]


def _same(value: Any, mark: Array) -> bool:
    import keras

    array = keras.ops.convert_to_numpy(value)
    return array.shape == mark.shape and bool((array.astype(np.float64) == mark.astype(np.float64)).all())


def _tighter(one: Role | None, other: Role) -> Role:
    """Returns the role that is fair for both layers an input reaches."""
    if one is None or one.kind != other.kind:
        return other if one is None or one.kind == "values" else one
    low = max(r.low for r in (one, other) if r.low is not None)
    high = min(r.high for r in (one, other) if r.high is not None)
    return Role(one.kind, low, high)


def given_roles(ranges: Mapping[str, tuple[float, float]], found: Mapping[str, Role]) -> dict[str, Role]:
    """Returns the roles with the ranges that the user gave, a low end and the first value past the high end."""
    given = {name: Role(found.get(name, Role("values")).kind, low, high) for name, (low, high) in ranges.items()}
    return {**found, **given}
