"""Times two ONNX files in turns, so that other work on the machine affects both."""

from statistics import median
from time import perf_counter

from keras_pe.export.quantization.quantizers import read_feed

_ROUNDS = 15
_LEAST_SECONDS = 0.002


def time_in_turns(paths: tuple[str, ...], feed: str) -> tuple[float, ...]:
    """Returns the median time of one batch in each ONNX file, with one thread. It runs in a subprocess.

    Args:
        paths: The files.
        feed: The file with the inputs of a batch.
    """
    from keras_pe.export.runtimes.onnxruntime import OnnxRuntime

    opened = [OnnxRuntime(path, threads=1) for path in paths]
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
    return tuple(map(median, taken))
