"""One process of ONNX Runtime for the files of a whole module."""

import pytest

from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.worker import Worker


@pytest.fixture(scope="module")
def plain_worker():
    """ONNX Runtime without its optimizations."""
    with Worker(*find_runtimes("onnxruntime[disabled]"), timeout=120) as started:
        yield started
