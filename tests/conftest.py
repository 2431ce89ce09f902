"""Settings, marks and artifacts for all tests: runtimes are quiet, stay on the CPU, and compute alike on each."""

import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from keras_pe.export import Artifact

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# TensorFlow uses it on some processors only, and has a fault without it (docs/upstream.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@pytest.hookimpl(tryfirst=True)  # before pytest reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the rows of a test `slow` that come after as many as its mark `quick_rows` names."""
    rows: Counter[str] = Counter()
    for item in items:
        quick = item.get_closest_marker("quick_rows")
        if quick is None or item.get_closest_marker("slow") or item.get_closest_marker("exhaustive"):
            continue
        test = item.nodeid.partition("[")[0]
        rows[test] += 1
        if rows[test] > quick.args[0]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> "Callable[..., Artifact]":
    """Returns `artifact(build, format, **options)`: what a function's model is exported to, once a process, to be read.

    A test that writes to the file, or is about the export itself, exports for itself.
    """
    made: dict[Any, Artifact] = {}

    def export(build: Callable[[], Any], format: str, **options: Any) -> "Artifact":
        from keras_pe import export

        exporters = {
            "onnx": (export.export_onnx, "model.onnx"),
            "tf_saved_model": (export.export_saved_model, "model"),
            "litert": (export.export_litert, "model.tflite"),
        }
        key = (build, format, *sorted(options.items()))
        if key not in made:
            exporter, name = exporters[format]
            made[key] = exporter(build(), tmp_path_factory.mktemp("artifact") / name, **options)
        return made[key]

    return export
