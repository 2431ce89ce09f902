"""Any number of rows through what takes a batch of one size only: in pieces, the last one filled up."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.parity.data.batching import fixed_size
from keras_pe.export.parity.data.shards import count
from keras_pe.export.runtimes.runtime import Array, Arrays


def in_whole_batches(
    run: Callable[[Mapping[str, Array]], Arrays], takes: Sequence[TensorInfo], inputs: Mapping[str, Array]
) -> Arrays:
    """Returns the outputs for rows, all at once where any number of them is taken.

    Args:
        run: Returns the outputs for a batch.
        takes: The inputs of what runs it.
        inputs: The rows, by name.
    """
    if fixed_size(takes) in (None, count(inputs)):
        return run(inputs)
    answers = [run(part) for part in whole_parts(takes, inputs)]
    return {name: np.concatenate([answer[name] for answer in answers])[: count(inputs)] for name in answers[0]}


def whole_parts(takes: Sequence[TensorInfo], inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Returns rows in batches that are taken, the last one filled up; all at once where any number of them is."""
    total = count(inputs)
    size = fixed_size(takes) or max(1, total)
    parts = ({name: rows[start : start + size] for name, rows in inputs.items()} for start in range(0, total, size))
    return [fill_up(part, takes) for part in parts]


def fill_up(inputs: Mapping[str, Array], takes: Sequence[TensorInfo]) -> dict[str, Array]:
    """Returns no more rows than a batch of the one size that is taken, the last one repeated up to it."""
    missing = (fixed_size(takes) or 0) - count(inputs)
    if missing <= 0:
        return dict(inputs)
    return {name: np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) for name, rows in inputs.items()}
