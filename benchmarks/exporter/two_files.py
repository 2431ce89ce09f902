"""How fast one ONNX file runs beside another of the same model, in every runtime that is here: two given files.

These are the exports of two exporters, or of two versions of one. They take turns in one process a runtime, opened
eight times, and the first is opened a second time as well: what it takes longer or shorter than itself is what the
measurement cannot tell.

    python -m benchmarks.exporter.two_files FIRST.onnx SECOND.onnx [--runtimes NAME...] [--batch N] [--length N]
"""

import argparse
import json
import os
import pkgutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Run, in_own_process, interleaved_openings, quotient

NAMES = ("first", "second", "first again")
RUNTIMES = ("onnxruntime[all]", "onnxruntime[disabled]", "openvino", "onnxruntime_web[wasm]", "onnxruntime_web[webgpu]")


def measure(
    runtime: str, files: Sequence[Path], batch: int, length: int, seconds: float, rounds: int = 101
) -> dict[str, list[float]]:
    """Returns the seconds of each run of two files, and of the first opened again, in a runtime that is here.

    Args:
        runtime: Its name, see `find_runtimes`.
        files: The two, whose inputs have the same names, or the same order.
        batch: The size of a leading dimension that is left open.
        length: That of each other one.
        seconds: How long each of the three may run, three runs at least.
        rounds: How often each runs at most.
    """
    from keras_pe.export.runtimes.registry import find_runtimes

    (spec,) = find_runtimes(runtime)
    given: dict[str, Any] = {}

    def opened(file: Path) -> Run:
        loaded = pkgutil.resolve_name(spec.factory)(str(file), **spec.options)
        names = [info.name for info in loaded.inputs]
        if not given:
            given.update((info.name, _array(info, batch, length)) for info in loaded.inputs)
        feed = given if given.keys() == set(names) else dict(zip(names, given.values(), strict=True))
        return partial(loaded.run, feed)

    openers = {name: partial(opened, file) for name, file in zip(NAMES, [*files, files[0]], strict=True)}
    return interleaved_openings(openers, rounds, seconds)


def _array(info: Any, batch: int, length: int) -> Any:
    """Returns what an input may be given: normal numbers, truths, and whole numbers that any vocabulary has."""
    shape = [size if isinstance(size, int) else length if axis else batch for axis, size in enumerate(info.shape)]
    rng = np.random.default_rng(0)
    if info.dtype.startswith("float"):
        return rng.normal(size=shape).astype(info.dtype)
    return np.ones(shape, info.dtype) if info.dtype == "bool" else rng.integers(0, 2, shape).astype(info.dtype)


def main() -> None:
    """Prints a line for each runtime, and for each variant of a family; with `--within` does one process' part."""
    from keras_pe.export.runtimes.registry import named_runtimes

    parser = argparse.ArgumentParser(prog="python -m benchmarks.exporter.two_files", description=__doc__)
    parser.add_argument("files", nargs=2, type=Path, metavar="FILE")
    parser.add_argument("--runtimes", nargs="+", default=RUNTIMES, metavar="NAME")
    parser.add_argument("--batch", type=int, default=1, help="size of a leading dimension that is left open")
    parser.add_argument("--length", type=int, default=128, help="size of each other one")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="processor cores to use")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each file may run in each runtime")
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    files = [file.absolute() for file in asked.files]
    if asked.within:
        print(json.dumps(measure(asked.runtimes[0], files, asked.batch, asked.length, asked.seconds)))
        return
    sizes = ["--batch", asked.batch, "--length", asked.length, "--seconds", asked.seconds]
    for runtime in [spec.name for name in asked.runtimes for spec in named_runtimes(name)]:
        arguments = [*map(str, [*files, *sizes]), "--within", "--runtimes", runtime]
        try:
            found = in_own_process("benchmarks.exporter.two_files", arguments, threads=asked.threads)
        except RuntimeError as error:  # it is not installed, or cannot run one of the files
            print(f"{runtime}: left out: {str(error).strip().splitlines()[-1][:200]}", flush=True)
            continue
        first, second, again = found.values()
        print(
            f"{runtime}: first over second {_told(first, second)}, over itself {_told(first, again)}, "
            f"{len(first)} turns of {np.median(first) * 1e3:.3g} ms",
            flush=True,
        )


def _told(first: Sequence[float], second: Sequence[float]) -> str:
    middle, least, most = quotient(first, second)
    return f"{middle:.3f} ({least:.3f} to {most:.3f})"


if __name__ == "__main__":
    main()
