"""A bundle has what each failure was fed and measured against, though they failed in one case."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_pe.export import write_bundle
from keras_pe.export.parity.bundle import read_bundle
from keras_pe.export.records import ParityReport, Recording, RuntimeResult
from keras_pe.export.results import RunStatus
from tests.cli.test_check_data import write_model

SHARED, OWN = {"x": np.arange(3, dtype=np.float32)}, {"x": np.arange(3, dtype=np.float16)}
WIDE, SHORT = {"y": np.float32([0.1])}, {"y": np.float16([0.1])}


def sets_of(recording: Recording) -> list[Mapping[str, np.ndarray]]:
    return [*recording.before, recording.inputs, recording.expected]


def test_failures_in_one_case_that_are_measured_against_other_arrays_keep_their_own(tmp_path: Path) -> None:
    path = str(write_model(tmp_path / "model.onnx", None))
    pairs = ((SHARED, WIDE), (OWN, SHORT))
    recordings = [Recording("b", inputs, expected, {}, before=(SHARED,)) for inputs, expected in pairs]
    results = tuple(
        RuntimeResult(path, "onnx", f"onnxruntime[{level}]", False, RunStatus.COMPARED, recording=recording)
        for level, recording in zip(("all", "basic"), recordings, strict=True)
    )
    write_bundle(ParityReport("model", "itself", (), results), tmp_path / "failures.npz")
    found = [failure.recording for failure in read_bundle(tmp_path / "failures.npz").failures]
    for read, written in zip(found, recordings, strict=True):
        for mine, theirs in zip(sets_of(read), sets_of(written), strict=True):
            (name,) = theirs
            assert mine[name].dtype == theirs[name].dtype
            np.testing.assert_array_equal(mine[name], theirs[name])
    with np.load(tmp_path / "failures.npz") as arrays:
        assert sum(name.endswith("/x") for name in arrays.files) == 2, "what they have in common stands there once"
