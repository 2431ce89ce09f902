"""Settings, marks and artifacts for all tests. Runtimes log little, and use only the CPU, with equal kernels on all."""

import os
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from keras_pe.export.records import Artifact

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# TensorFlow uses it on some processors only, and has a fault without it (docs/upstream.md).
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


@pytest.hookimpl(tryfirst=True)  # before pytest reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks rows of tests `slow` and `exhaustive`, as their marks `quick_rows` and `slow_rows` ask."""
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    for rows in tests.values():
        rows = [row for row in rows if not row.get_closest_marker("exhaustive")]
        quick = [row for row in rows if not row.get_closest_marker("slow")]
        for row in quick[_number(rows, "quick_rows") :]:
            row.add_marker(pytest.mark.slow)
        slow = [row for row in rows if row.get_closest_marker("slow")]
        count = min(_number(rows, "slow_rows"), len(slow))
        kept = {index * len(slow) // count for index in range(count)}  # rows of one kind stand side by side
        for index in set(range(len(slow))) - kept:
            slow[index].add_marker(pytest.mark.exhaustive)


def _number(rows: list[pytest.Item], name: str) -> int:
    """Returns the number in a mark of a test, or that of all its rows if it has no such mark."""
    mark = rows[0].get_closest_marker(name) if rows else None
    return mark.args[0] if mark else len(rows)


@pytest.fixture(scope="session")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> "Callable[..., Artifact]":
    """Returns `artifact(build, format, **options)`, which exports the model of a function once a process.

    The tests share the file, so they must not write to it. A test of the export itself calls the exporter.
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
