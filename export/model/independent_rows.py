"""Finds by calls whether the rows of a batch depend on each other in a model with states."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_pe.export.model.watch.nested_arguments import leaves, with_leaves
from keras_pe.export.model.watch.recording import state_left_alone

_LENGTHS = (6, 16, 64, 1)  # sizes of free dimensions on which rows are compared


def has_independent_rows(
    outer: Any, arguments: Any, specs: Sequence[Any], free: Sequence[bool], initial: Sequence[Any]
) -> bool:
    """Returns whether twice the batch returns what each half of its rows returns, in the second of two calls.

    Args:
        outer: A `Stateless` model.
        arguments: The positional arguments of the model, with a `keras.KerasTensor` at each leaf.
        specs: The leaves of the arguments.
        free: Whether the first axis of each state is the batch.
        initial: The first value of each state.
    """
    rng = np.random.default_rng(0)
    for length in _LENGTHS:
        rows = 2 * (specs[0].shape[0] or 1)
        shapes = [(rows, *(length if size is None else size for size in spec.shape[1:])) for spec in specs]
        calls = [[_draw(rng, *each) for each in zip(shapes, specs, strict=True)] for _ in range(2)]
        states = [
            np.concatenate([value] * 2) if is_free else value for value, is_free in zip(initial, free, strict=True)
        ]
        try:
            whole = _called_twice(outer, arguments, calls, states)
            halves = [
                _called_twice(outer, arguments, [[x[part] for x in call] for call in calls], initial)
                for part in (slice(None, rows // 2), slice(rows // 2, None))
            ]
        except Exception:  # a layer may raise any error on another batch or length
            continue
        return all(
            np.allclose(one, np.concatenate(parts) if one.ndim and len(one) == rows else parts[0], 1e-3, 1e-4)
            for one, *parts in zip(whole, *halves, strict=True)
        )
    return False


def _draw(rng: np.random.Generator, shape: tuple[int, ...], spec: Any) -> Any:
    if keras.backend.is_float_dtype(spec.dtype):
        return rng.normal(size=shape).astype(spec.dtype)
    return rng.integers(0, 2, shape).astype(spec.dtype)


def _called_twice(outer: Any, arguments: Any, calls: Sequence[Any], states: Sequence[Any]) -> list[Any]:
    """Returns the outputs and the states of the second call, which goes on from the first."""
    with state_left_alone():
        for arrays in calls:
            tensors = [keras.ops.convert_to_tensor(array) for array in arrays]
            results, states = outer.call(states, with_leaves(arguments, tensors))
    return [keras.ops.convert_to_numpy(each) for each in (*(y for _, y in leaves(results)), *states)]
