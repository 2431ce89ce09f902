"""A fault in a file of more than 2 GiB, its weights beside it: found where it is, within a computer's memory."""

import os
import re
from pathlib import Path

import keras
import numpy as np
import onnx
import pytest

from keras_pe.export import check_parity, export_onnx

FREE = 16 * 2**30  # bytes: what a check of such a model takes at most, over all processes, and its export before
SIZES = (1.5, 1.01)  # the second is near enough to rounding for a second look at the noise


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < FREE, reason="needs 16 GiB of free memory"
)
def test_a_weight_scaled_by_much_or_by_little_is_found_in_a_file_of_more_than_two_gibibytes(tmp_path):
    keras.utils.set_random_seed(0)
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = keras.layers.Embedding(260_000, 1024, name="embed")(tokens)
    x = keras.layers.GlobalAveragePooling1D(name="pool")(x)
    x = keras.layers.Dense(16_384, activation="relu", name="widen")(x)
    x = keras.layers.Dense(16_384, activation="relu", name="large")(x)
    model = keras.Model(tokens, keras.layers.Dense(10, name="head")(x), name="big")
    artifact = export_onnx(model, tmp_path / "big.onnx")
    assert artifact.nbytes > 2**31
    for before, factor in zip((1.0, *SIZES), SIZES, strict=False):
        _scale(artifact.path, "large/kernel", factor / before)
        report = check_parity(model, artifact, runtimes=["onnxruntime[all]"])
        assert not report.passed
        (finding,) = report.findings
        assert (finding.cause, finding.layer) == ("scaled values", "large"), str(report)
        said = re.search(r"Its values are ([\d.]+) times", finding.evidence)
        assert float(said[1]) == pytest.approx(factor, rel=1e-6)  # two roundings to float32, and seven digits
        assert report.results[0].proof.holds


def _scale(path: Path, name: str, factor: float) -> None:
    """Multiplies a weight in the file beside the model."""
    (tensor,) = [t for t in onnx.load(path, load_external_data=False).graph.initializer if t.name == name]
    place = {entry.key: entry.value for entry in tensor.external_data}
    stored = np.memmap(path.parent / place["location"], np.float32, "r+", int(place["offset"]), tuple(tensor.dims))
    stored *= np.float32(factor)
    stored.flush()
