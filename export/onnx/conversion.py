"""From a traced function to an ONNX model in memory, the weights still arguments of its graph."""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from keras_pe.export.errors import ExportError
from keras_pe.export.onnx.handlers import register_handlers
from keras_pe.export.signature import Signature
from keras_pe.export.tracing import Trace

TF2ONNX_OPSETS = range(15, 19)  # what tf2onnx 1.17 writes; onnx's version converter goes on from the last


def convert(trace: Trace, signature: Signature, opset: int, model_name: str) -> Any:
    """Returns an `onnx.ModelProto` whose graph inputs are the signature's, then the weights, under their final names.

    Raises:
        ExportError: If an operator has no ONNX form.
    """
    import tensorflow as tf
    from tf2onnx import optimizer, tf_loader, tfonnx

    _repair_tf2onnx()
    register_handlers()
    inputs = [*trace.inputs, *(weight.argument for weight in trace.weights)]
    outputs = list(trace.outputs)
    names = dict(zip(inputs, [*(s.name for s in signature.inputs), *(w.name for w in trace.weights)], strict=True))
    names |= dict(zip(outputs, (spec.name for spec in signature.outputs), strict=True))
    with _collected_errors() as errors, tf.device("/cpu:0"):
        frozen = tf_loader.from_function(trace.function, inputs, outputs)
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen, name="")
            converted = tfonnx.process_tf_graph(
                graph,
                continue_on_error=True,  # every failure is logged, and the log is read: all of them are reported
                opset=min(opset, TF2ONNX_OPSETS[-1]),
                input_names=inputs,
                output_names=outputs,
                tensors_to_rename=names,
            )
        if errors:
            raise ExportError("ONNX", model_name, " ".join(errors))
        proto = optimizer.optimize_graph(converted, catch_errors=False).make_model("")
    if opset > TF2ONNX_OPSETS[-1]:
        import onnx.version_converter

        proto = onnx.version_converter.convert_version(proto, opset)
    return proto


def _repair_tf2onnx() -> None:
    """Lets tf2onnx 1.17 run with NumPy 2, as Keras does."""
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    with warnings.catch_warnings():
        # Keras asks `hasattr(np, "object")`, which NumPy 2.4 answers with a warning about its future meaning.
        warnings.filterwarnings("ignore", message=".*np.object.*", category=FutureWarning)
        patch_tf2onnx()


@contextlib.contextmanager
def _collected_errors() -> Iterator[list[str]]:
    """Collects what tf2onnx would only log, and keeps it off the console."""
    errors: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                errors.append(record.getMessage())

    logger = logging.getLogger("tf2onnx")
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate, logger.level = [Collector()], False, logging.ERROR
    try:
        yield errors
    finally:
        logger.handlers, logger.propagate, logger.level = before
