"""From a traced function to an ONNX model in memory, the weights still arguments of its graph."""

import contextlib
from collections.abc import Iterator
from typing import Any

from keras_pe.export.errors import ExportError, UnsupportedError
from keras_pe.export.formats import Format
from keras_pe.export.graph.tracing import Trace
from keras_pe.export.messages import first_line
from keras_pe.export.model.keras_internals import repair_tf2onnx
from keras_pe.export.model.signature import Signature
from keras_pe.export.onnx.handlers import register_handlers
from keras_pe.export.onnx.inlining import inline
from keras_pe.export.onnx.joining import register_joining
from keras_pe.export.onnx.refusals import collected_failures, refuse_complex_arguments, refuse_failures
from keras_pe.export.onnx.subgraphs import register_subgraphs

TF2ONNX_OPSETS = range(15, 19)  # what tf2onnx 1.17 writes; onnx's version converter goes on from the last


def convert(trace: Trace, signature: Signature, opset: int, model: Any) -> Any:
    """Returns an `onnx.ModelProto` whose graph inputs are the signature's, then the weights, under their final names.

    Raises:
        UnsupportedError: If an operator has no ONNX form.
    """
    import onnx.version_converter
    from tf2onnx import optimizer

    refuse_complex_arguments(signature, model)
    repair_tf2onnx()
    register_handlers()
    register_joining()
    register_subgraphs()
    inputs = [*trace.inputs, *(weight.argument for weight in trace.weights)]
    names = dict(zip(inputs, [*(s.name for s in signature.inputs), *(w.name for w in trace.weights)], strict=True))
    names |= dict(zip(trace.outputs, (spec.name for spec in signature.outputs), strict=True))
    with collected_failures() as failures:
        try:
            graph = _convert_graph(trace, inputs, names, min(opset, TF2ONNX_OPSETS[-1]))
            refuse_failures(failures, trace, model)
            proto = optimizer.optimize_graph(graph, catch_errors=False, optimizers=_optimizers()).make_model("")
            return proto if opset in TF2ONNX_OPSETS else onnx.version_converter.convert_version(proto, opset)
        except ExportError:
            raise
        except Exception as error:  # the libraries raise whatever comes to hand
            refuse_failures(failures, trace, model)
            raise UnsupportedError(Format.ONNX, model.name, f"the conversion failed: {first_line(error)}.") from error


def _optimizers() -> dict[str, Any]:
    """Returns tf2onnx's optimizers without those that choose by hash or by stopwatch what an export repeats exactly."""
    from tf2onnx.optimizer import _get_optimizers

    return {
        name: optimizer
        for name, optimizer in _get_optimizers().items()
        if name not in ("merge_duplication", "einsum_optimizer")
    }


def _convert_graph(trace: Trace, inputs: list[str], names: dict[str, str], opset: int) -> Any:
    import tensorflow as tf
    from tf2onnx import tfonnx

    from keras_pe.export.onnx.handlers.complex_numbers import mark_complex

    definition = inline(trace)
    with tf.device("/cpu:0"), tf.Graph().as_default() as graph, _loops_kept():
        tf.import_graph_def(definition, name="")
        return tfonnx.process_tf_graph(
            graph,
            continue_on_error=True,  # failures are collected, so that all of them are named
            opset=opset,
            custom_rewriter=[mark_complex],
            input_names=inputs,
            output_names=list(trace.outputs),
            tensors_to_rename=names,
        )


@contextlib.contextmanager
def _loops_kept() -> Iterator[None]:
    """Keeps tf2onnx from taking a loop for a layer by its looks; `recurrences` knows them, and wants no constants."""
    from tf2onnx import tfonnx

    rewriters = {name: getattr(tfonnx, name) for name in ("rewriter_lstm_tf2", "rewrite_gru_tf2")}
    try:
        for name in rewriters:
            setattr(tfonnx, name, lambda graph, nodes: nodes)
        yield
    finally:
        for name, rewriter in rewriters.items():
            setattr(tfonnx, name, rewriter)
