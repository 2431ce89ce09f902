"""Measures the seconds of an export and of a check for networks of 100 to 3,000 layers, which must grow linearly.

    python -m benchmarks.exporter.depth_cost [LAYERS]...

Each network has a process of its own, which exports and checks a small network first, so imports are not counted. The
command ends with 1 if the cost of a layer grows by more than the factor `MOST` from one network to the next.
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import keras

from benchmarks.measuring import run_in_process
from keras_pe.export import check_parity, export_onnx

DEPTHS = (100, 300, 1000, 3000)
MOST = 3**0.5  # three times the depth: 1 is a line, 3 its square, and this as far from one as from the other


def build(depth: int) -> keras.Model:
    """Returns a network of so many small layers, in which rounding errors neither grow nor fade."""
    keras.utils.set_random_seed(depth)
    layers = [keras.layers.Dense(16, "tanh", kernel_initializer="orthogonal") for _ in range(depth)]
    return keras.Sequential([keras.Input((16,)), *layers])


def measure(depth: int) -> dict[str, float]:
    """Returns the seconds of an export and of a check, and whether the check passed."""
    sys.setrecursionlimit(20_000)  # Keras follows a network from layer to layer by recursion
    _cost(build(3))
    return _cost(build(depth))


def compare(depths: Sequence[int]) -> tuple[dict[str, float], bool]:
    """Measures networks of several depths, each in its own process, and prints a line for each.

    Args:
        depths: Numbers of layers, at least two.

    Returns:
        The largest ratio of the cost of a layer to its cost in the next shallower network, for an export and for a
        check. The third value is whether every check passed.
    """
    found = {}
    for depth in sorted(depths):
        found[depth] = run_in_process("exporter.depth_cost:measure", depth)
        shown = ", ".join(f"{name} {value:.1f} s" for name, value in found[depth].items() if name != "passed")
        print(f"{depth:5} layers: {shown}", flush=True)
    ratios = {}
    for what in ("export", "check"):
        costs = [each[what] / depth for depth, each in found.items()]
        ratios[what] = max(after / before for before, after in itertools.pairwise(costs))
    print(", ".join(f"{what}: {ratio:.2f} times the cost of a layer" for what, ratio in ratios.items()), flush=True)
    return ratios, all(each["passed"] for each in found.values())


def main() -> None:
    """Prints a line for each network."""
    ratios, passed = compare([int(each) for each in sys.argv[1:]] or DEPTHS)
    sys.exit(max(ratios.values()) > MOST or not passed)


def _cost(model: keras.Model) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        file = export_onnx(model, Path(folder) / "model.onnx").path
        exported = time.perf_counter()
        report = check_parity(model, file, runtimes=["onnxruntime[all]"])
        return {
            "export": exported - start,
            "check": time.perf_counter() - exported,
            "passed": float(report.passed),
        }


if __name__ == "__main__":
    main()
