"""The command `python -m benchmarks`, which measures and renders. `--render` renders stored results only.

The parts `devices`, `diagnosis` and `quantize` are tables: only rows that are not stored are measured. The exit code is
3 if rows are left.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

from benchmarks import decoder as decoders
from benchmarks import devices, diagnosis, measurement_files, rendering
from benchmarks.measuring import RUNTIMES, run_in_process, thread_counts

# Cases that have work for two threads.
TWO_THREADS = ("range:8:128", "range:1:2048", "positions:32:512", "start:1:2048", "starts:32:512")
# PyTorch compiles a contestant for many seconds, so only some cases of this mode are measured.
COMPILED = ("8 heads of 64:8:128", "32 heads of 128:1:2048", "step:1:1", "step:8:1")


def main() -> None:
    """Measures, stores and renders."""
    every = (*PARTS, *TABLES)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(every)}; without any, all of them")
    parser.add_argument("--render", action="store_true", help="render what is stored, and measure nothing")
    parser.add_argument("--shared", action="store_true", help="the machine has other work, too: one thread only")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no row of a table after this time")
    parser.add_argument("--rows", default="", help="only rows of a table whose names begin so")
    asked = parser.parse_args()
    if set(asked.parts) - set(every):
        parser.error(f"unknown part; choose of: {', '.join(every)}")
    is_complete = True
    for part in [] if asked.render else asked.parts or every:
        print(part, flush=True)
        if part in TABLES:
            is_complete &= measurement_files.complete_rows(part, TABLES[part](), asked.seconds, asked.rows)
        else:
            found = PARTS[part](asked.shared)
            beside = {"machine": measurement_files.machine(asked.shared), **found.get("beside", {})}
            measurement_files.save(part, found.get("seconds", {}), found.get("bytes", {}), beside)
    rendering.write()
    sys.exit(0 if is_complete else 3)


def accuracy(shared: bool) -> dict[str, Any]:
    """Returns the largest errors."""
    return {"beside": {"figures": run_in_process("accuracy.encodings:measure")}}


def speed(encoding: str, runtimes: Sequence[str], shared: bool) -> dict[str, Any]:
    """Returns the times of the contestants of an encoding in some runtimes."""
    seconds: dict[str, list[float]] = {}
    left_out: list[str] = []
    for runtime in runtimes:
        backend = RUNTIMES[runtime]
        if find_spec(backend) is None:
            left_out.append(f"{encoding}, {backend}: it was not installed where this was measured.")
            continue
        for threads, limits in _shares(encoding, runtime, shared):
            arguments = (runtime, encoding, threads)
            found = run_in_process("speed.worker:measure", *arguments, threads=threads, backend=backend, **limits)
            seconds |= found["seconds"]
            left_out += [f"{name}: {reason}" for name, reason in found["failed"].items()]
    return {"seconds": seconds, "beside": {"left out": left_out}}


def _shares(encoding: str, runtime: str, shared: bool) -> list[tuple[int, dict[str, Any]]]:
    """Returns the numbers of threads to measure with, and the modes and cases of each measurement."""
    if encoding == "sinusoidal":
        return [(threads, {"cases": TWO_THREADS if threads > 1 else ()}) for threads in thread_counts(shared)]
    if runtime == "in_torch":
        return [(1, {"modes": ["PyTorch, eager"]}), (1, {"modes": ["PyTorch, compiled"], "cases": COMPILED})]
    return [(1, {})]


def exporter(shared: bool) -> dict[str, Any]:
    """Returns the exporter's figures, and those of others."""
    from benchmarks.exporter import export_cost, onnx_speed  # with Keras, which nothing else here needs

    found = onnx_speed.measure(threads=thread_counts(shared))
    seconds = {f"exported/{name}": each for name, each in found["seconds"].items()}
    exports = export_cost.measure()
    seconds |= {f"export of BERT/{route}": [each["seconds"]] for route, each in exports.items()}
    return {
        "seconds": seconds,
        "bytes": {f"export of BERT, peak/{route}": int(each["peak"]) for route, each in exports.items()},
        "beside": {"operators": found["operators"], "left out": found["left out"]},
    }


def decoder(shared: bool) -> dict[str, Any]:
    """Returns the times of decoders, with one thread and with two."""
    counts = thread_counts(shared)
    found = [run_in_process("decoder:measure", threads, threads=threads) for threads in counts]
    left_out = [each for part in found for each in part["left out"]]
    seconds = {name: each for part in found for name, each in part["seconds"].items()}
    has_jax = find_spec("jax") is not None
    if not has_jax:
        left_out.append("Decoders: jax was not installed.")
    for threads in counts if has_jax else ():
        taken = run_in_process("decoder:measure_keras", threads=threads, backend="jax")
        seconds[f"decoder text, {decoders.name_of(threads)}/Keras generate, JAX"] = taken
    return {"seconds": seconds, "beside": {"left out": [*dict.fromkeys(left_out)]}}


def quantized_files() -> dict[str, Any]:
    """Returns a function for each method of each quantized model."""
    from benchmarks import quantization  # with Keras, which nothing else here needs

    return quantization.rows()


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    "accuracy": accuracy,
    **{runtime.removeprefix("in_"): partial(speed, "sinusoidal", [runtime]) for runtime in RUNTIMES},
    "rotary": partial(speed, "rotary", list(RUNTIMES)),
    "exporter": exporter,
    "decoder": decoder,
}
TABLES: dict[str, Callable[[], dict[str, Any]]] = {
    "devices": devices.rows,
    "diagnosis": diagnosis.rows,
    "quantize": quantized_files,
}


if __name__ == "__main__":
    main()
