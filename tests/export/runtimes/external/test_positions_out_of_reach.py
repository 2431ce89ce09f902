"""The encoding of a position that no table holds is NaN or an error, also where `Gather` does not check its indices.

WebGPU takes the last row instead, its older implementation 0.
"""

from pathlib import Path

import keras
import numpy as np
import pytest

from keras_pe import SinusoidalPositionEncoding, timing_signal
from keras_pe.export import export_onnx
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.runtimes.worker import Worker
from tests.export.runtimes.external.present import need

CHANNELS = 8
UNCHECKED = ("onnxruntime_web[webgpu]", "onnxruntime_web[webgpu-jsep]")
CHECKING = ("onnxruntime[all]", "onnxruntime_web[chromium-wasm]")
OUT_OF_REACH = {
    None: (2**24, -(2**24) - 1, 2**31 - 1, -(2**31)),
    600: (600, 2**24, -1, -(2**24) - 1),
    9_000: (9_000, 2**24, -1),
    200_000: (200_000, 2**24, -1),
}


@pytest.fixture(scope="module", params=OUT_OF_REACH, ids=["unbounded", "tabulated", "composed", "composed twice"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int | None]:
    """A model that returns the encoding of the positions it is given, and its `max_length`."""
    x = keras.Input((None, CHANNELS), name="x")
    positions = keras.Input((None,), dtype="int32", name="positions")
    layer = SinusoidalPositionEncoding(max_length=request.param, combine="replace")
    model = keras.Model([x, positions], layer(x, positions=positions))
    return export_onnx(model, tmp_path_factory.mktemp("model") / "model.onnx").path, request.param


@pytest.mark.slow_rows(6)
@pytest.mark.slow
@pytest.mark.parametrize("runtime", [*CHECKING, *UNCHECKED])
def test_a_position_out_of_reach_gets_no_plausible_row(runtime: str, exported: tuple[Path, int | None]) -> None:
    path, max_length = exported
    x = np.zeros((1, 3, CHANNELS), np.float32)
    with Worker(need(runtime), timeout=120) as worker:
        worker.load(path)
        for position in OUT_OF_REACH[max_length]:
            positions = np.array([[5, position, 599]], np.int32)
            if runtime in CHECKING:
                with pytest.raises(RuntimeRefusedError, match=r"positions_must_be_from_.*out of data bounds"):
                    worker.run({"x": x, "positions": positions})
                continue
            (signal,) = worker.run({"x": x, "positions": positions}).values()
            assert np.isnan(signal[0, 1]).all(), (position, signal[0, 1])
            # The other rows are right: two roundings of the tables and three of the composition.
            np.testing.assert_allclose(signal[0, ::2], timing_signal(positions[0, ::2], CHANNELS), rtol=0, atol=2.5e-7)
