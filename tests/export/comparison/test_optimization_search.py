"""The search for the optimization that changes what a file returns."""

from pathlib import Path

from keras_pe.export.comparison.optimization_search import guilty_optimizations
from keras_pe.export.runtimes.registry import find_runtimes


def test_a_search_that_takes_too_long_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    (spec,) = find_runtimes("onnxruntime[all]")
    found = guilty_optimizations(tmp_path / "m.onnx", spec, lambda worker: True, timeout=0.01)
    assert found is not None
    assert "more than 0.01 s" in found
