"""tf2onnx is found as it was, whoever else converts at the same time, and nobody else goes in."""

import logging
import threading
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import UnsupportedError, export_onnx
from keras_pe.export.onnx.handlers import all_handlers, opsets
from tests.export.onnx.exported import assert_cases_agree

ROOT = Path(__file__).parents[3] / "export"


def _model() -> keras.Model:
    x = keras.Input((4, 6), name="x")
    return keras.Model(x, keras.layers.Dense(5, activation="gelu")(keras.layers.LSTM(3)(x)))


def _state() -> dict[str, Any]:
    from tf2onnx import tf_loader, tfonnx
    from tf2onnx.graph import Graph
    from tf2onnx.handler import tf_op

    logger = logging.getLogger("tf2onnx")
    return {
        "handlers": [dict(handlers) for handlers in tf_op.get_opsets()[""]],
        "changed": [dict(vars(each)) for each in (Graph, tf_loader, tfonnx)],
        "log": (list(logger.handlers), logger.propagate, logger.level),
    }


@pytest.mark.slow
def test_exports_in_several_threads_write_what_one_alone_writes_and_leave_tf2onnx_as_it_was(tmp_path: Path) -> None:
    model = _model()
    refused = keras.Sequential([keras.Input((4, 4)), keras.layers.Lambda(lambda x: keras.ops.svd(x)[1])])
    alone = export_onnx(model, tmp_path / "alone.onnx").path.read_bytes()
    before, errors = _state(), list[Exception]()

    def export(count: int) -> None:
        try:
            export_onnx(model if count % 2 else refused, tmp_path / f"{count}.onnx")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=export, args=(count,)) for count in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [UnsupportedError] * 2, errors
    assert all((tmp_path / f"{count}.onnx").read_bytes() == alone for count in (1, 3))
    assert _state() == before


def test_every_module_of_handlers_is_found() -> None:
    folder = ROOT / "onnx" / "handlers"
    registering = [path for path in folder.glob("*.py") if "@handler(" in path.read_text()]
    assert len(registering) > 5
    handlers = all_handlers(opsets.EXPORTED[-1])
    modules = {function.__closure__[0].cell_contents.__module__ for function in handlers.values()}
    assert {f"keras_pe.export.onnx.handlers.{path.stem}" for path in registering} <= modules


@pytest.mark.slow
def test_a_branch_knows_the_ranks_of_what_it_takes(tmp_path: Path) -> None:
    convolve = keras.layers.Conv2D(4, 2)
    convolve.build((None, None, None, 3))

    def function(images: Any, scale: Any) -> Any:
        shape = keras.ops.shape(images)

        def convolve_images() -> Any:
            pixels = keras.ops.reshape(images * scale[:, None, None], (shape[0], shape[1], shape[2], 3))
            return keras.ops.max(convolve(pixels), axis=(1, 2))

        def average_images() -> Any:
            return keras.ops.tile(keras.ops.mean(images[:, 1:], axis=(1, 2, 3))[:, None], (1, 4))

        return keras.ops.cond(shape[1] > 3, convolve_images, average_images)

    rng = np.random.default_rng(0)
    cases = [[rng.normal(size=shape).astype("float32") for shape in ((2, n, 6, 3), (2, 3))] for n in (3, 5)]
    # sums of at most 36 terms of about 1
    assert_cases_agree(function, [(None, None, None, 3), (None, 3)], cases, tmp_path, atol=1e-5)


def test_a_mistake_of_tf2onnx_is_told_with_its_layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tf2onnx import tfonnx

    def fail(graph: Any, nodes: Any) -> None:
        (node,) = [node for node in nodes if node.type == "Sinh"]
        node.name + 1

    monkeypatch.setattr(tfonnx, "rewrite_constant_fold", fail)
    x = keras.Input((4,), name="x")
    y = keras.layers.Lambda(keras.ops.sinh, name="curve")(keras.layers.Dense(3)(x))
    with pytest.raises(UnsupportedError, match="TypeError") as caught:
        export_onnx(keras.Model(x, y), tmp_path / "m.onnx")
    assert caught.value.layer == "curve"
