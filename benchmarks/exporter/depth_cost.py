"""What depth costs: seconds of an export and of a check of networks of 100 to 3,000 layers, which must grow no faster.

    python -m benchmarks.exporter.depth_cost [LAYERS]...

Each network has a process of its own, which exports and checks a small one first: imports are not counted. The command
ends with 1 if a layer of the deepest network costs more than `MOST` times what a layer of the one before it costs.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import keras

from benchmarks.measuring import in_own_process
from keras_pe.export import check_parity, export_onnx

DEPTHS = (100, 300, 1000, 3000)
MOST = 1.5  # a cost that grows with the square of the depth would give 3


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


def layer_costs(found: dict[int, dict[str, float]], what: str) -> list[float]:
    """Returns the seconds of one layer in each network, the shallowest first."""
    return [found[depth][what] / depth for depth in sorted(found)]


def main() -> None:
    """Prints a line for each network; with a single depth does one process' part."""
    depths = [int(each) for each in sys.argv[1:]] or list(DEPTHS)
    if len(depths) == 1:
        print(json.dumps(measure(depths[0])))
        return
    found = {}
    for depth in depths:
        found[depth] = in_own_process("benchmarks.exporter.depth_cost", [str(depth)])
        print(
            f"{depth:5} layers: {', '.join(f'{name} {value:.1f}' for name, value in found[depth].items())}", flush=True
        )
    ratios = {what: (costs := layer_costs(found, what))[-1] / costs[-2] for what in ("export", "check")}
    print(", ".join(f"{what}: {ratio:.2f} times the cost of a layer" for what, ratio in ratios.items()))
    sys.exit(any(ratio > MOST for ratio in ratios.values()) or not all(each["passed"] for each in found.values()))


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
