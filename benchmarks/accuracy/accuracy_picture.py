"""Draws docs/accuracy.png: the error of each encoding by position.

python -m benchmarks.accuracy.accuracy_picture [FILE]
"""

import itertools
import sys

import numpy as np
from matplotlib.figure import Figure

from benchmarks.accuracy.encodings import CHANNELS, layer, product_float32, tensor2tensor_float32
from keras_pe import timing_signal
from keras_pe.palette import BLUE, ORANGE, VERMILION
from keras_pe.rotations.composed import LIMIT

CURVES = (
    ("tensor2tensor, float32", tensor2tensor_float32, VERMILION, "-"),
    ("timescales from float64, product in float32", product_float32, ORANGE, "--"),
    ("keras_pe", layer, BLUE, "-"),
)


def main() -> None:
    """Writes the picture."""
    edges = np.unique(np.geomspace(16, LIMIT, 121).astype(int))
    rng = np.random.default_rng(0)
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    for label, encode, color, style in CURVES:
        worst = []
        for low, high in itertools.pairwise(edges):
            positions = np.unique(rng.integers(low, high, 256)).astype("int32")
            worst.append(np.abs(encode(positions) - timing_signal(positions, CHANNELS)).max())
        axes.loglog(edges[1:], worst, label=label, color=color, linestyle=style, linewidth=2)
    axes.axhline(2.5e-7, color="black", linewidth=1, linestyle=":")
    axes.annotate("2.5e-7, what the layer promises", (20, 3.2e-7), fontsize=9)
    axes.set_xlabel("position")
    axes.set_ylabel("largest error of the encoding")
    axes.set_title(f"What float32 does to a sinusoidal position encoding ({CHANNELS} channels)")
    axes.set_xlim(edges[1], LIMIT)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "docs/accuracy.png", dpi=110)


if __name__ == "__main__":
    main()
