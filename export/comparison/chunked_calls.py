"""Runs a sequence in chunks: each call takes the state that the last call returned. A replay bundle holds this file."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]


def run_in_chunks(
    run: Callable[[Arrays], Arrays],
    inputs: Arrays,
    chunks: Sequence[int],
    axes: Mapping[str, int],
    carried: Mapping[str, str],
    growing: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Returns every output of all calls, by name, with the calls joined.

    Args:
        run: Makes one call.
        inputs: The whole sequences, and the states before the first call.
        chunks: The length of each chunk.
        axes: The axis of each input that is cut. Without any, each call takes the whole inputs.
        carried: The output with the next value of each state, by the state's input.
        growing: The axis of each input of which a call takes the part up to its own end.
    """
    start, calls = 0, list[Arrays]()
    state: Arrays = {}
    for size in chunks:
        part = {name: _cut(inputs[name], axis, start, size) for name, axis in axes.items()}
        part |= {name: _cut(inputs[name], axis, 0, start + size) for name, axis in (growing or {}).items()}
        outputs = run({**inputs, **part, **state})
        state = {name: outputs[output] for name, output in carried.items()}
        calls.append(outputs)
        start += size
    return {name: _join([each[name] for each in calls]) for name in calls[0]}


def ignore_padding(found: Arrays, expected: Arrays, mask: Any, carried: Mapping[str, str]) -> Arrays:
    """Returns the outputs of a sequence with the expected values where they are not compared.

    Padding enters the cache, so the whole cache of a sequence with padding is not compared.

    Args:
        found: The outputs of all calls, joined.
        expected: The expected outputs.
        mask: 0 at padding, `[batch, total]`.
        carried: As in `run_in_chunks`.
    """
    is_padding = np.equal(mask, 0)
    if not is_padding.any():
        return found
    kept = dict(found)
    for name, array in expected.items():
        if name in carried.values():
            kept[name] = array
        elif name in kept and kept[name].shape == array.shape:
            kept[name] = np.where(is_padding[..., None], array, kept[name])
    return kept


def _cut(array: Any, axis: int, start: int, size: int) -> Any:
    return array[(*[slice(None)] * axis, slice(start, start + size))]


def _join(parts: Sequence[Any]) -> Any:
    """Returns the arrays along the axis in which their sizes differ, or else along a new axis after the rows."""
    shapes = zip(*(part.shape for part in parts), strict=True)
    axes = [axis for axis, sizes in enumerate(shapes) if len(set(sizes)) > 1]
    return np.concatenate(parts, axes[0]) if axes else np.stack(parts, min(1, parts[0].ndim))
