"""What all tests share: runtimes that are quiet, stay on the CPU, and compute alike on each; and artifacts to read."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from keras_pe.export import Artifact

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# TensorFlow uses it on some processors only, and has a fault without it (docs/upstream.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


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
