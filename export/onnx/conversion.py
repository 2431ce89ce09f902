"""From a traced function to an ONNX model in memory, the weights still arguments of its graph."""

from collections.abc import Callable
from functools import partial
from typing import Any

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.artifacts.onnx_graph import all_nodes
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.graph.tracing import Trace
from keras_pe.export.messages import first_line
from keras_pe.export.onnx.handlers import all_handlers, opsets
from keras_pe.export.onnx.inlining import inline
from keras_pe.export.onnx.lookup_tables import lookup_handlers
from keras_pe.export.onnx.missing_forms import refuse_complex_arguments, unsupported
from keras_pe.export.onnx.precomputed import with_values
from keras_pe.export.onnx.splitting import text_handlers
from keras_pe.export.onnx.tf2onnx_door import FailedError, convert_graph


def convert(trace: Trace, opset: int, model: Any) -> Any:
    """Returns an `onnx.ModelProto` whose graph inputs are the signature's, then the weights, under their final names.

    Raises:
        UnsupportedError: If an operator has no ONNX form.
    """
    from keras_pe.export.onnx.handlers.complex_numbers import mark_complex  # imports tf2onnx
    from keras_pe.export.onnx.handlers.texts import mark_texts

    signature = trace.signature
    refuse_complex_arguments(signature, model)
    inputs = [*trace.inputs, *(weight.argument for weight in trace.weights)]
    names = dict(zip(inputs, [*(s.name for s in signature.inputs), *(w.name for w in trace.weights)], strict=True))
    names |= dict(zip(trace.outputs, (spec.name for spec in signature.outputs), strict=True))
    write = partial(
        convert_graph,
        inputs=inputs,
        outputs=trace.outputs,
        opset=min(opset, opsets.WRITTEN[-1]),
        names=names,
        handlers={**all_handlers(), **lookup_handlers(trace), **text_handlers(opset)},
        markers=[mark_complex, mark_texts],
    )
    try:
        proto = _written(write, inline(trace), trace)
        return proto if opset in opsets.WRITTEN else _at_version(proto, opset)
    except FailedError as error:
        raise unsupported(error.failures, trace, model) from error
    except Exception as error:  # the libraries raise whatever comes to hand
        raise UnsupportedError(Format.ONNX, model.name, f"the conversion failed: {first_line(error)}.") from error


def _written(write: Callable[[Any], Any], definition: Any, trace: Trace) -> Any:
    """Returns the ONNX model, with values in place of what has no form and depends on weights alone.

    Raises:
        FailedError: If something else has no form.
    """
    while True:
        try:
            return write(definition)
        except FailedError as error:
            changed = with_values(definition, trace.weights, [failure.node for failure in error.failures])
            if changed is None:
                raise
            definition = changed


def _at_version(proto: Any, opset: int) -> Any:
    """Returns the model at an opset that tf2onnx does not write, where the later operators are ONNX's own."""
    import onnx.version_converter

    proto.opset_import.add(domain=opsets.LATER_DOMAIN, version=1)
    _declare(proto.graph)
    converted = onnx.version_converter.convert_version(proto, opset)
    _move(converted.graph)
    return converted


def _declare(graph: Any) -> None:
    """Declares the types of what later operators return, without which onnx 1.23 fails to infer others and dies."""
    from onnx import TensorProto

    types = {
        "StringSplit": (TensorProto.STRING, TensorProto.INT64),
        "StringConcat": (TensorProto.STRING,),
        "Equal": (TensorProto.BOOL,),
        **dict.fromkeys(("Attention", "RotaryEmbedding"), (TensorProto.FLOAT,)),
    }
    for node in graph.node:
        if node.domain == opsets.LATER_DOMAIN:
            for name, kind in zip(node.output, types[node.op_type], strict=True):
                graph.value_info.add(name=name).type.tensor_type.elem_type = kind


def _move(graph: Any) -> None:
    for node in all_nodes(graph):
        if node.domain == opsets.LATER_DOMAIN:
            node.domain = ""
