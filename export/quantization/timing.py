"""Times files in turns, so that other work on the machine affects all."""

import pkgutil
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.quantization.feeds import read_feed

ONE_THREAD: Mapping[Format, Mapping[str, int]] = {Format.ONNX: {"threads": 1}, Format.LITERT: {}}
"""The options of a runtime that computes with one thread. LiteRT does so by default."""

_ROUNDS = 15
_LEAST_SECONDS = 0.002


def time_in_turns(factory: str, options: Mapping[str, Any], paths: tuple[str, ...], feed: str) -> tuple[float, ...]:
    """Returns the least time of one batch in each file, in a subprocess. Other work on the machine adds time.

    Args:
        factory: The class of the runtime, as "package.module:Class".
        options: The options of the runtime.
        paths: The files.
        feed: The file with the inputs of a batch.
    """
    opened = [pkgutil.resolve_name(factory)(path, **options) for path in paths]
    inputs = read_feed(feed)
    repeats = []
    for each in opened:
        each.run(inputs)
        start = perf_counter()
        each.run(inputs)
        repeats.append(max(1, round(_LEAST_SECONDS / max(perf_counter() - start, 1e-6))))
    taken: list[list[float]] = [[] for _ in opened]
    for turn in range(_ROUNDS):
        order = range(len(opened)) if turn % 2 else range(len(opened) - 1, -1, -1)
        for place in order:
            start = perf_counter()
            for _ in range(repeats[place]):
                opened[place].run(inputs)
            taken[place].append((perf_counter() - start) / repeats[place])
    return tuple(map(min, taken))
